"""What the benches of callbacks have in common: receivers, a broker and a worker as processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webapp.commands.broker import find_server

HERE = Path(__file__).parent
LISTENING_SECONDS = 60
sys.path.insert(0, str(HERE.parent))


@contextmanager
def receiver(count: int, *options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Its port, and the process that prints a line for every `count` requests."""
    command = [sys.executable, str(HERE / "fast_receiver.py"), str(count), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield int(process.stdout.readline()), process
    finally:
        process.terminate()
        process.wait()


def line_of(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdout
    return [float(number) for number in process.stdout.readline().split()]


def environment(folder: Path) -> dict[str, str]:
    """Settings of a set-up in this folder, where `broker` puts its socket."""
    names = {
        "EXPORTDESK_DATA_DIR": str(folder),
        "EXPORTDESK_REDIS_URL": f"unix://{folder}/redis.sock",
        "EXPORTDESK_CALLBACK_ALLOW_PRIVATE": "127.0.0.0/8",
        "EXPORTDESK_CONFIG": "",
        "PYTHONPATH": str(HERE.parents[1]),
    }
    return {**os.environ, **names}


@contextmanager
def broker(folder: Path) -> Iterator[None]:
    command = [find_server(), "--port", "0", "--unixsocket", f"{folder}/redis.sock", "--save", "", "--dir", str(folder)]
    with child(command, None, folder / "redis.txt"):
        while not (folder / "redis.sock").exists():
            time.sleep(0.02)
        yield


@contextmanager
def child(command: list[str], environ: dict[str, str] | None, log: Path) -> Iterator[int]:
    """The id of a process that is told to end with the block; what it says goes to the file."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


async def until_listening(port: int) -> None:
    async with asyncio.timeout(LISTENING_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


@contextmanager
def worker(environ: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "worker", "callbacks"]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
