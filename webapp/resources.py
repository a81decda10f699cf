"""The composition root: opens what web and worker both need, and closes it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from webapp import queue, storage
from webapp.datasets.catalog import demo_catalog, load_catalog
from webapp.datasets.choices import ChoiceLists
from webapp.datasets.declaration import Catalog
from webapp.datasets.holder import CatalogHolder
from webapp.domain.tries import Tries
from webapp.ending import end
from webapp.sealing import Sealer
from webapp.settings import Settings, source_environment
from webapp.status_cache import StatusCache
from webapp.store.database import Store
from webapp.store.schema import require_current_schema

if TYPE_CHECKING:
    from webapp.openid import Provider


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything an action works with."""

    settings: Settings
    store: Store
    redis: queue.Broker
    storage: storage.Storage
    holder: CatalogHolder
    sealer: Sealer
    choices: ChoiceLists = field(default_factory=ChoiceLists)
    statuses: StatusCache = field(default_factory=StatusCache)
    tries: Tries = field(default_factory=Tries)
    openid: Provider | None = None

    @property
    def catalog(self) -> Catalog:
        """The one in use now; the next look may find another."""
        return self.holder.state.catalog

    def with_catalog(self, catalog: Catalog) -> Resources:
        """The same with a catalog that no file changes."""
        return replace(self, holder=CatalogHolder(lambda: catalog))


def broker_url(settings: Settings) -> str:
    """REDIS_URL, or the socket at which `up` runs the embedded broker."""
    return settings.redis_url or f"unix://{quote(str(settings.broker_socket))}"


def open_catalog(settings: Settings) -> Catalog:
    """The datasets of CONFIG, or of the file that forms made in the data folder, or the demo. Raises BadCatalog."""
    if is_demo(settings):
        return demo_catalog(settings.data_dir)
    return load_catalog(settings.catalog_file, source_environment())


def is_demo(settings: Settings) -> bool:
    """Whether no file says what can be exported."""
    return settings.config is None and not settings.catalog_file.exists()


def open_holder(settings: Settings) -> CatalogHolder:
    """Raises BadCatalog."""
    return CatalogHolder(lambda: open_catalog(settings), settings.catalog_file)


def open_provider(settings: Settings) -> Provider | None:
    """The provider of sign-ins, if there is one. It is not asked before somebody comes."""
    if (given := settings.openid) is None:
        return None
    from webapp.openid import Provider

    return Provider(given, f"{settings.base_url}/sign-in/openid/callback")


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncGenerator[Resources]:
    """Raises OutdatedSchema before anything is opened that would have to work with old tables; and StorageUnusable."""
    await require_current_schema(settings.database_url)
    store = Store(settings.database_url)
    await store.open()
    redis = queue.connect(broker_url(settings))
    files = storage.open_storage(settings)
    files.prepare()
    watching: list[asyncio.Task[None]] = []
    try:
        holder = open_holder(settings)
        watching.append(asyncio.create_task(holder.watch()))
        yield Resources(
            settings, store, redis, files, holder, Sealer(*settings.secret_keys), openid=open_provider(settings)
        )
    finally:
        await end(*watching)
        await redis.aclose(close_connection_pool=True)
        await store.close()
