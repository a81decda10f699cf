"""Child processes: how they are started, spoken to and ended, and one that is kept warm."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextvars import Context

from worker.messages import CANCEL, Assignment, Message, decode_message, encode

log = logging.getLogger("worker.child")

LINE_BYTES = 1024 * 1024
STOP_SECONDS = 2.0
LAST_WORD_SECONDS = 0.25
"""Between the last message of a child and its end: killed there, it would seem to have left a query behind."""
COMMAND = (sys.executable, "-P", "-m", "worker.child")
"""With -P a file named `worker` in the current folder is not taken for ours."""


class Child:
    """One process. It belongs to one attempt once it has been given its assignment."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.export_id = "spare"
        self._about: dict[str, object] = {}
        self._logging = asyncio.create_task(self._log_errors())

    @classmethod
    async def start(cls, *kind: str) -> Child:
        """One that loads what a source of this scheme and this format need before it has an assignment."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *kind,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        return self.process.returncode is None

    async def assign(self, assignment: Assignment) -> None:
        self.export_id = assignment.export_id
        self._about = {"export_id": assignment.export_id, "attempt": assignment.attempt}
        assert self.process.stdin is not None
        self.process.stdin.write(encode(assignment))
        await self.process.stdin.drain()

    async def receive(self) -> Message | None:
        """The next message, or None when the child has ended."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        return decode_message(line) if line.endswith(b"\n") else None

    async def stop(self) -> None:
        """Cancels the query first, so that the source stops working too, then ends the process."""
        if self.is_alive and self.process.stdin is not None:
            with contextlib.suppress(ConnectionError, TimeoutError):
                self.process.stdin.write(CANCEL)
                await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        await self.end()

    async def end(self, *, grace: float = 0.0) -> int:
        """Ends the process if it does not end by itself within `grace` seconds; gives back its return code."""
        if self.is_alive and grace:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), grace)
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        code = await self.process.wait()
        await self._logging
        return code

    async def _log_errors(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            log.error("%s: %s", self.export_id, line.decode(errors="replace").rstrip(), extra=self._about)


class Children:
    """Hands out children; the next one is started in advance, so that a small export need not wait for imports."""

    def __init__(self) -> None:
        self._spare: asyncio.Task[Child] | None = None
        self._at_work: set[Child] = set()

    @property
    def pids(self) -> list[int]:
        """Of those that live."""
        spare = self._spare
        waiting = [spare.result()] if spare is not None and spare.done() and not spare.exception() else []
        return [child.process.pid for child in (*self._at_work, *waiting) if child.is_alive]

    def warm(self, *kind: str) -> None:
        """In a context of its own: it does not belong to the attempt that took the one before."""
        if self._spare is None:
            self._spare = asyncio.create_task(Child.start(*kind), context=Context())

    @contextlib.asynccontextmanager
    async def child(self, *kind: str) -> AsyncGenerator[Child]:
        """A child for one attempt; it has ended when the block is left, however it is left.

        `kind`, the scheme of its source and its format, is what the next one gets ready for.
        """
        child = await self._take(kind)
        self._at_work.add(child)
        try:
            yield child
        finally:
            self._at_work.discard(child)
            await asyncio.shield(child.end(grace=LAST_WORD_SECONDS))

    async def _take(self, kind: tuple[str, ...]) -> Child:
        spare, self._spare = self._spare, None
        child = await spare if spare is not None else await Child.start()
        if not child.is_alive:
            await child.end()
            child = await Child.start()
        self.warm(*kind)
        return child

    async def close(self) -> None:
        if self._spare is not None:
            child = await self._spare
            await child.end()
