"""A real worker with its slots: a small order beside many large ones of the same person."""

from __future__ import annotations

from worker_processes import WorkerStarter, order_slow, start_worker, until

from webapp.domain.access import Viewer
from webapp.domain.exports import Lane, Status
from webapp.resources import Resources
from webapp.store import exports as rows

__all__ = ["start_worker"]

LARGE = 3_000_000


async def test_a_small_order_does_not_wait_for_large_ones(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    start_worker("exports")
    large = [await order_slow(resources, user, LARGE + n) for n in range(5)]
    for export in large[:2]:
        await until(resources, export, having=lambda e: e.rows_done > 0)
    small = await order_slow(resources, user, 1000)
    done = await until(resources, small, having=lambda e: e.status is Status.SUCCESS)
    assert done.lane is Lane.SMALL
    left = await rows.any_of(resources.store, [export.id for export in large])
    assert sum(export.status is Status.QUEUED for export in left) >= 2
