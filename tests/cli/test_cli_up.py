"""`exportdesk up`, for real: it comes up, keeps up, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import COMMAND, environment, exportdesk, free_port, write_config

from webapp.commands.logfile import LogFile
from webapp.commands.up import without_password
from webapp.settings import read_settings

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


@dataclass
class Up:
    process: subprocess.Popen[bytes]
    environ: dict[str, str]
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environ['EXPORTDESK_PORT']}"

    @property
    def data_dir(self) -> Path:
        return Path(self.environ["EXPORTDESK_DATA_DIR"])

    @property
    def text(self) -> str:
        return self.output.read_text()

    def pid(self, part: str) -> int:
        """As the table says it."""
        return int(re.search(rf"^{part} +(\d+) ", self.text, re.MULTILINE)[1])


@pytest.fixture
def up(tmp_path, shop) -> Iterator[Up]:
    """Started with one small dataset, so that no demo data is made."""
    config = write_config(tmp_path, shop)
    environ = environment(tmp_path / "data", CONFIG=str(config), PORT=str(free_port()))
    output = tmp_path / "up.txt"
    with output.open("wb") as file:
        process = subprocess.Popen((*COMMAND, "up"), env=environ, stdout=file, stderr=file, start_new_session=True)
    running = Up(process, environ, output)
    try:
        wait_until(lambda: "Ctrl-C stops everything." in running.text or process.poll() is not None, 60)
        assert process.poll() is None, running.text
        yield running
    finally:
        descendants = descendants_of(process.pid)
        process.kill()
        process.wait()
        for pid in descendants:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def descendants_of(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= more
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def readiness(up: Up) -> int:
    try:
        with urllib.request.urlopen(f"{up.url}/readyz", timeout=5) as answer:
            return answer.status
    except OSError:
        return 0


def test_up_serves_restarts_what_dies_and_stops_without_a_trace(up):
    assert readiness(up) == 200
    assert re.search(r"^  http://localhost:\d+/sign-in/once/[\w-]+$", up.text, re.MULTILINE)

    second = exportdesk("up", environ=up.environ)
    assert second.returncode == 2
    assert second.stderr == (
        f"exportdesk up is already running on {up.data_dir} (process {up.process.pid}). Stop it first.\n"
    )

    killed = up.pid("worker exports")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: "worker exports was ended by SIGKILL; it starts again in 0.5 s." in up.text, 10)
    ready = "the exports worker is ready"
    wait_until(lambda: (up.data_dir / "logs" / "worker-exports.log").read_text().count(ready) == 2, 30)
    assert not is_alive(killed)

    descendants = descendants_of(up.process.pid)
    assert len(descendants) >= 4
    os.kill(up.process.pid, signal.SIGTERM)
    assert up.process.wait(30) == 0
    wait_until(lambda: not any(map(is_alive, descendants)), 5)
    assert list((up.data_dir / "run").iterdir()) == []
    assert "Everything has stopped." in up.text


def test_killing_up_itself_leaves_no_process_and_the_next_one_starts(up):
    descendants = descendants_of(up.process.pid)
    os.kill(up.process.pid, signal.SIGKILL)
    up.process.wait()
    wait_until(lambda: not any(map(is_alive, descendants)), 5)
    assert (up.data_dir / "run" / "redis.sock").exists()

    with (up.output.with_name("again.txt")).open("w+b") as file:
        again = subprocess.Popen((*COMMAND, "up"), env=up.environ, stdout=file, stderr=file)
        try:
            wait_until(lambda: readiness(up) == 200, 60)
        finally:
            again.send_signal(signal.SIGINT)
            assert again.wait(30) == 0


def test_a_data_folder_too_long_for_a_socket_gets_one_elsewhere(tmp_path):
    short = read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path / "d")})
    deep = tmp_path / ("long" * 30)
    first = read_settings({"EXPORTDESK_DATA_DIR": str(deep)})
    again = read_settings({"EXPORTDESK_DATA_DIR": str(deep)})
    assert short.broker_socket == tmp_path / "d" / "run" / "redis.sock"
    assert len(os.fsencode(first.broker_socket)) <= 100
    assert first.broker_socket == again.broker_socket
    assert deep not in first.broker_socket.parents


def test_passwords_in_urls_are_not_shown():
    assert without_password("postgresql://desk:hush@db:5432/desk?ssl=on") == "postgresql://desk:…@db:5432/desk?ssl=on"
    assert without_password("sqlite:////srv/desk.db") == "sqlite:////srv/desk.db"


def test_only_warnings_and_crashes_of_a_log_are_shown(tmp_path):
    path = tmp_path / "web.log"
    path.write_text("left from before\n")
    log = LogFile(path)
    with path.open("a") as file:
        file.write("2026-11-29T10:00:00.000Z INFO     web: fine\n  more of it\n")
        file.write("2026-11-29T10:00:00.000Z ERROR    web: bad\nTraceback\n")
        file.write('{"time": "2026-11-29T10:00:00.000Z", "level": "INFO", "logger": "web"}\nunfinished')
    assert log.loud_lines() == ["2026-11-29T10:00:00.000Z ERROR    web: bad", "Traceback"]
    assert log.loud_lines() == []
