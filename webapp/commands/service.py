"""One process under `up`: started tethered in a session of its own, watched, started again with back-off."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from webapp.commands.logfile import LogFile
from webapp.commands.tether import tether

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
HEALTHY_AFTER = 60.0
"""Seconds a process must have run for its next end to count as the first."""


def python_command(module: str, *arguments: str) -> list[str]:
    """`-P`: a file in the current folder must not stand in for a module of ours."""
    return [sys.executable, "-P", "-m", module, *arguments]


class Service:
    """`process` is None before the first start and between an end and the next start."""

    def __init__(self, name: str, command: Sequence[str], log: LogFile) -> None:
        self.name = name
        self.command = command
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.wait = FIRST_WAIT
        self._started_at = 0.0
        self._start_at = 0.0

    def start(self) -> None:
        self.log.rotate()
        with self.log.path.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=tether(),  # noqa: PLW1509
            )
        self._started_at = time.monotonic()

    def ended(self) -> int | None:
        """The exit code, once, when the process has ended since the last look; also sets when it starts again."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self._signal_group(signal.SIGKILL)
        self.process = None
        now = time.monotonic()
        if now - self._started_at >= HEALTHY_AFTER:
            self.wait = FIRST_WAIT
        self._start_at = now + self.wait
        return code

    def restart_if_due(self) -> None:
        """Each restart doubles the wait before the next one."""
        if self.process is None and time.monotonic() >= self._start_at:
            self.wait = min(self.wait * 2, LONGEST_WAIT)
            self.start()

    @property
    def seconds_to_restart(self) -> float | None:
        return None if self.process else max(0.0, self._start_at - time.monotonic())

    def terminate(self) -> None:
        """Asks the process alone: it ends its own children in good order."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """Ends the process and whatever it started, now."""
        if self.process is not None:
            self._signal_group(signal.SIGKILL)
            self.process.wait()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _signal_group(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
