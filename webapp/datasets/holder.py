"""Holds the catalog that is in use, and changes it when `exportdesk.toml` was edited well."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from webapp.datasets.declaration import BadCatalog, Catalog, Problem

log = logging.getLogger(__name__)

LOOK_EVERY = 2.0
SETTLED_AFTER = 0.2
"""Seconds between two looks that must agree before a file is read: an editor may be in the middle of writing it."""

Signature = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class State:
    """What is in use since when, what was before it, and what is wrong with the file as it is now."""

    catalog: Catalog
    since: datetime
    before: Catalog | None = None
    problems: tuple[Problem, ...] = ()


class CatalogHolder:
    """Without `path` no file can change it. Whoever needs two things of one catalog asks for it once.

    Raises BadCatalog when the first one cannot be loaded.
    """

    def __init__(self, load: Callable[[], Catalog], path: Path | None = None) -> None:
        self._path = path
        self._load = load
        self._seen = self._signature()
        self.state = State(load(), datetime.now(UTC))

    def refresh(self) -> bool:
        """Reads the file if it changed since the last time. True when its datasets are in use from now on."""
        signature = self._signature()
        if signature == self._seen or not self._is_settled(signature):
            return False
        self._seen = signature
        try:
            catalog = self._load()
        except BadCatalog as bad:
            self.state = replace(self.state, problems=tuple(bad.problems))
            for problem in bad.problems:
                log.error("%s", problem)
            log.error("the edited datasets are not used; those of %s stay", self.state.since.isoformat("T", "seconds"))
            return False
        self.state = State(catalog, datetime.now(UTC), before=self.state.catalog)
        log.info("%s was read again: %d datasets", self._path, len(catalog.datasets))
        return True

    async def watch(self) -> None:
        """Until it is cancelled. Whatever goes wrong with one look, the next one comes."""
        while self._path is not None:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await asyncio.to_thread(self.refresh)
            except Exception:
                log.exception("the datasets could not be read again")

    def _is_settled(self, signature: Signature) -> bool:
        time.sleep(SETTLED_AFTER)
        return self._signature() == signature

    def _signature(self) -> Signature:
        """None while there is no such file."""
        try:
            status = self._path.stat() if self._path else None
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size) if status else None
