"""The loop of `up`: one thread that sleeps until a signal, a child's end or the next tick."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence

from webapp.commands.service import Service, how_it_ended
from webapp.commands.terminal import coloured, say

TICK_SECONDS = 1.0
STOP_SECONDS = 20.0
SHOWN_LINES = 40
"""Of one process, a tick: a flood of warnings goes to the log file alone."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """A signal asked for the end."""


def _wake(_number: int, _frame: object) -> None:
    """A handler there has to be for the kernel to wake the loop."""


class Supervisor:
    """Keeps its services running until a signal comes."""

    def __init__(self) -> None:
        self.services: list[Service] = []
        self.stops = 0
        self.last_code: dict[str, int] = {}
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reader, selectors.EVENT_READ)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_stop)

    def start(self, *services: Service) -> None:
        for service in services:
            service.start()
            self.services.append(service)

    def wait_for(self, condition: Callable[[], bool], *, seconds: float, every: float = 0.1) -> bool:
        """Whether it came true in time; looks after the services meanwhile. Raises Stopped."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.tick(every)
        return True

    def run(self) -> None:
        """Until Stopped is raised."""
        while True:
            self.tick(self._next_tick())

    def tick(self, seconds: float) -> None:
        self._sleep(seconds)
        if self.stops:
            raise Stopped
        for service in self.services:
            self._show_log(service)
            self._look_after(service)

    def stop(self) -> None:
        """Web and workers first and together, the broker last; a second signal hurries."""
        self.stops = 0
        broker_last = [
            [s for s in self.services if s.name != "broker"],
            [s for s in self.services if s.name == "broker"],
        ]
        for services in broker_last:
            self._stop_together(services)

    def _stop_together(self, services: Sequence[Service]) -> None:
        deadline = time.monotonic() + STOP_SECONDS
        for service in services:
            service.terminate()
        while any(s.is_running for s in services) and time.monotonic() < deadline and not self.stops:
            self._sleep(0.2)
        for service in services:
            if service.is_running:
                say(coloured(f"{service.name} did not stop in time and is killed.", "yellow"))
            service.kill()
            self._show_log(service)

    def _look_after(self, service: Service) -> None:
        code = service.ended()
        if code is not None:
            self.last_code[service.name] = code
            say(coloured(f"{service.name} {how_it_ended(code)}; it starts again in {service.wait:g} s.", "yellow"))
        service.restart_if_due()

    def _show_log(self, service: Service) -> None:
        lines = service.log.loud_lines()
        if service.name != "broker":
            for line in lines[:SHOWN_LINES]:
                say(coloured(f"{service.name} | ", "dim") + line)
            if len(lines) > SHOWN_LINES:
                say(coloured(f"{service.name} | … {len(lines) - SHOWN_LINES} more lines in {service.log.path}", "dim"))
        service.log.rotate()

    def _next_tick(self) -> float:
        waits = [service.seconds_to_restart for service in self.services]
        return max(0.05, min([TICK_SECONDS, *(wait for wait in waits if wait is not None)]))

    def _sleep(self, seconds: float) -> None:
        if self._selector.select(seconds):
            os.read(self._reader, 512)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stops += 1
