"""A callbacks worker inside the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from patience import PATIENCE

from webapp import queue
from webapp.ending import end
from webapp.resources import Resources
from worker.children import Children
from worker.dispatch import Dispatcher
from worker.guard import Guard
from worker.main import Tools, callback_worker

STOPPING_SECONDS = 20.0


@asynccontextmanager
async def callbacks_working(resources: Resources) -> AsyncGenerator[None]:
    """Sends trials and whatever is owed, as `exportdesk worker callbacks` does."""
    redis = queue.connect(str(resources.settings.redis_url))
    async with Guard.of(resources) as guard:
        worker = callback_worker(resources, Tools(Children(), guard), redis)
        running = [
            asyncio.create_task(worker.run_until_lost()),
            asyncio.create_task(Dispatcher(resources, guard).run()),
        ]
        async with asyncio.timeout(PATIENCE):
            while not await queue.worker_is_alive(resources.redis, queue.QueueName.CALLBACKS):
                await asyncio.sleep(0.01)
        yield
        await end(*running, again=STOPPING_SECONDS)
        await worker.cancel_jobs()
        await redis.delete(worker.health_check_key)
        await redis.aclose(close_connection_pool=True)
