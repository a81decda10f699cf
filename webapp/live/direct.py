"""Events on their way to a stream that waits: sent as soon as they are read, without waking the stream's task.

Thousands of streams are told the same. To wake a task costs several times what there is to do for it: to see which of
the events its reader may hear, and to write bytes that all share.
"""

from __future__ import annotations

from collections.abc import Callable

from webapp.domain.access import may_hear
from webapp.live.identity import Identity
from webapp.live.replay import Frames, Page, Replay, Waiting


class Direct:
    """What one stream is told that hears of all events that its viewer may hear, as `replay` finds them."""

    def __init__(self, identity: Identity, replay: Replay, frames: Frames) -> None:
        self.send: Callable[[bytes], bool] | None = None
        """Whether it was sent, or will be before all else. Set by the stream once it is open."""
        self._identity = identity
        self._viewer = identity.viewer
        self._replay = replay
        self._frames = frames

    def ask(self, waiting: Waiting[Page]) -> None:
        """As `Replay.ask`, once it is known anew who the viewer is, where that was looked up too long ago."""
        self._replay.ask(waiting, before=self._identity.renew)

    def tell(self, page: Page) -> bool:
        """Whether it is told. Otherwise nothing has changed, and the stream's task has to do it."""
        viewer = self._viewer
        if viewer is None or viewer is not self._identity.viewer or self.send is None or not page.is_last:
            return False
        told = [event for event in page.fresh if may_hear(viewer, event.data)]
        if told and not self.send(b"".join(map(self._frames.of, told))):
            return False
        self._replay.told(page)
        return True
