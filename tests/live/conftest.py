"""A hub that listens, and stores of both kinds (see `fresh_stores`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from fresh_stores import migrated_postgres

from webapp.live.hub import Hub
from webapp.resources import Resources

__all__ = ["migrated_postgres"]


@pytest.fixture
async def live(resources: Resources) -> AsyncIterator[Hub]:
    async with Hub(resources.redis).running() as running:
        while not running.is_connected:
            await asyncio.sleep(0.01)
        yield running
