"""The composition root: opens what web and worker both need, and closes it again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from webapp import queue, storage
from webapp.datasets.catalog import Catalog, demo_catalog, load_catalog
from webapp.settings import Settings, source_environment
from webapp.store.database import Store
from webapp.store.schema import require_current_schema


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything an action works with."""

    settings: Settings
    store: Store
    redis: queue.Broker
    storage: storage.Storage
    catalog: Catalog


def broker_url(settings: Settings) -> str:
    """REDIS_URL, or the socket at which `up` runs the embedded broker."""
    return settings.redis_url or f"unix://{quote(str(settings.broker_socket))}"


def open_catalog(settings: Settings) -> Catalog:
    """The datasets of CONFIG, or the demo. Raises BadCatalog."""
    if settings.config is None:
        return demo_catalog(settings.data_dir)
    return load_catalog(settings.config, source_environment())


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncGenerator[Resources]:
    """Raises OutdatedSchema before anything is opened that would have to work with old tables."""
    await require_current_schema(settings.database_url)
    store = Store(settings.database_url)
    await store.open()
    redis = queue.connect(broker_url(settings))
    files = storage.open_storage(settings.storage_url)
    files.prepare()
    try:
        yield Resources(settings, store, redis, files, open_catalog(settings))
    finally:
        await redis.aclose(close_connection_pool=True)
        await store.close()
