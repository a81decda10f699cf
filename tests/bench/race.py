"""Runs exports and their rivals as whole processes, in turns, and prints what each took. The ratio comes last."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from data import FOLDER

from webapp.datasets.sources import scheme_of
from worker.children import COMMAND
from worker.messages import Assignment, Failed, Finished, decode_message, encode

ROOT = Path(__file__).parents[2]
SITE = FOLDER / "site"
"""Where a bench installs what an exporting process shall find."""

KILOBYTE = 1024


@dataclass(frozen=True, slots=True)
class Lap:
    """One process from start to end: seconds on the wall, seconds of all processors, peak memory in MiB."""

    wall: float
    cpu: float
    peak: float
    sha256: str = ""
    warnings: tuple[tuple[str, str, int], ...] = ()


@dataclass(slots=True)
class Runner:
    name: str
    run: Callable[[], Lap]
    laps: list[Lap] = field(default_factory=list)

    @property
    def wall(self) -> float:
        return statistics.median(lap.wall for lap in self.laps)

    @property
    def cpu(self) -> float:
        return statistics.median(lap.cpu for lap in self.laps)


def arguments(description: str, *, rows: int = 1_000_000) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--rival-python",
        default=os.environ.get("EXPORTDESK_BENCH_RIVAL_PYTHON", sys.executable),
        help="a Python that has the rival installed (also EXPORTDESK_BENCH_RIVAL_PYTHON)",
    )
    return parser


def export(
    url: str, sql: str, format: str, path: Path, *, memory_mib: int = 512, spare: bool = True, **options: object
) -> Lap:
    """Our whole way: a fresh child process with an assignment, as the supervisor starts it.

    Timed from the assignment on, to a child that waits for it as it does in a worker whose last export was of the same
    kind; without a `spare` from the start of the child on.
    """
    order = Assignment(
        export_id="exp_bench",
        attempt=1,
        dataset="bench",
        title="Bench",
        url=url,
        sql=sql,
        params={},
        shown_params={},
        format=format,
        options=dict(options),
        path=str(path),
        row_limit=None,
        max_bytes=None,
        memory_mib=memory_mib,
    )
    kind = (scheme_of(url), format) if spare else ()
    output, lap = _process([*COMMAND, *kind], given=encode(order), spare=spare)
    last = decode_message(output.splitlines()[-1])
    assert isinstance(last, Finished), last.code if isinstance(last, Failed) else last
    return Lap(lap.wall, lap.cpu, lap.peak, last.sha256, tuple(last.warnings))


def rival(command: Sequence[str], *, given: bytes = b"") -> Lap:
    return _process([*command], given=given)[1]


def has_rival(python: str, modules: str) -> bool:
    """Says plainly when it is missing."""
    done = subprocess.run([python, "-c", f"import {modules}"], capture_output=True, text=True)
    if done.returncode:
        print(f"rival missing: {python} cannot import {modules}; name one that can with --rival-python")
    return done.returncode == 0


def race(runners: Sequence[Runner], rounds: int) -> None:
    """A B A B …, so that whatever else the machine does meets both."""
    for _ in range(rounds):
        for runner in runners:
            runner.laps.append(runner.run())


def report(runners: Sequence[Runner], rows: int, notes: str) -> None:
    """The first is ours, the second the rival; the ratio is of rows a second, by wall and by processor time."""
    print(f"{'':24}{'rows/s':>10}{'s (laps)':>34}{'cpu s':>8}{'peak MiB':>10}")
    for runner in runners:
        laps = " ".join(f"{lap.wall:.2f}" for lap in runner.laps)
        peak = max(lap.peak for lap in runner.laps)
        print(f"{runner.name:24}{rows / runner.wall:10,.0f}{laps:>34}{runner.cpu:8.2f}{peak:10.0f}")
    print(notes)
    if len(runners) > 1:
        ours, other = runners[0], runners[1]
        print(f"ratio by cpu time: {other.cpu / ours.cpu:.2f}")
        print(f"ratio: {other.wall / ours.wall:.2f}")


def workplace(name: str) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / name


def _process(command: list[str], *, given: bytes, spare: bool = False) -> tuple[bytes, Lap]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(SITE)])}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
    )
    assert process.stdin
    assert process.stdout
    used = 0.0
    if spare:
        used = _used_when_idle(process.pid)
        started = time.perf_counter()
    process.stdin.write(given)
    process.stdin.flush()
    if command[: len(COMMAND)] != [*COMMAND]:
        process.stdin.close()
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command[0]} ended with {process.returncode}"
    return output, Lap(wall, usage.ru_utime + usage.ru_stime - used, usage.ru_maxrss / KILOBYTE)


def _used_when_idle(pid: int) -> float:
    """Seconds of processor time, once it uses no more."""
    process = psutil.Process(pid)
    before = -1.0
    while (used := sum(process.cpu_times()[:2])) != before:
        before = used
        time.sleep(0.3)
    return used
