"""Who is behind the credential of a stream, looked up anew while it is open: once for all streams under it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from weakref import WeakValueDictionary

from webapp.domain.access import Viewer

IDENTITY_SECONDS = 5.0

LookUp = Callable[[], Awaitable[Viewer | None]]


class Identity:
    """`viewer` stays the same object while nothing about it changes; None when the credential is nobody's any more."""

    def __init__(self, viewer: Viewer | None, look_up: LookUp) -> None:
        self.viewer = viewer
        self._look_up = look_up
        self._looked = time.monotonic()

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._looked >= IDENTITY_SECONDS

    async def renew(self) -> None:
        """Unless that was done a moment ago."""
        if self.is_old:
            await self.look()

    async def look(self) -> None:
        begun = time.monotonic()
        self.is_now(await self._look_up())
        self._looked = begun

    def is_now(self, viewer: Viewer | None) -> None:
        if viewer != self.viewer:
            self.viewer = viewer


class Identities:
    """By the credentials of all streams that are open."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Hashable, Identity] = WeakValueDictionary()

    def of(self, credential: Hashable, viewer: Viewer, look_up: LookUp) -> Identity:
        """`viewer` is who has just asked for a stream."""
        identity = self._known.get(credential)
        if identity is None:
            identity = self._known[credential] = Identity(viewer, look_up)
        identity.is_now(viewer)
        return identity
