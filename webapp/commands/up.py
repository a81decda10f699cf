"""`exportdesk up`: broker, migrations, demo data, web and workers on this machine, under one supervisor."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from webapp.commands import broker
from webapp.commands.failures import EXIT_USE, Failure
from webapp.commands.listening import local_address, require_free_port
from webapp.commands.lock import lock
from webapp.commands.logfile import LogFile
from webapp.commands.service import Service, python_command
from webapp.commands.supervisor import Stopped, Supervisor
from webapp.commands.terminal import coloured, say, table
from webapp.commands.tether import tether
from webapp.resources import is_demo
from webapp.settings import Settings
from webapp.web.words import counted

BROKER_SECONDS = 15.0
PREPARE_SECONDS = 600.0
READY_SECONDS = 60.0


def run_up(settings: Settings) -> int:
    """0 after a clean stop. Raises Failure for what the person has to mend first."""
    run = _make_folders(settings)
    with lock(run / "up.lock"):
        require_free_port(settings.host, settings.port)
        supervisor = Supervisor()
        try:
            _run(settings, supervisor)
        except Stopped:
            say("\nStopping …")
        finally:
            supervisor.stop()
            if settings.redis_url is None:
                broker.remove_socket(settings.broker_socket, settings.data_dir)
    say("Everything has stopped.")
    return 0


def _make_folders(settings: Settings) -> Path:
    run = settings.data_dir / "run"
    try:
        for folder in (settings.data_dir, settings.log_dir, run):
            folder.mkdir(parents=True, exist_ok=True)
        run.chmod(0o700)
        _require_writable(run)
    except OSError as error:
        raise Failure(
            f"Cannot write to {settings.data_dir} ({error.strerror}). Set EXPORTDESK_DATA_DIR to a folder of yours."
        ) from None
    return run


def _require_writable(folder: Path) -> None:
    trial = folder / ".trial"
    trial.touch()
    trial.unlink()


def _run(settings: Settings, supervisor: Supervisor) -> None:
    if settings.redis_url is None:
        _start_broker(settings, supervisor)
    prepared = _prepare(supervisor)
    supervisor.start(
        _service("web", settings, python_command("webapp.cli", "web")),
        _service("worker exports", settings, python_command("worker", "exports")),
        _service("worker callbacks", settings, python_command("worker", "callbacks")),
    )
    _wait_until_ready(settings, supervisor)
    _show(settings, supervisor, prepared)
    supervisor.run()


def _service(name: str, settings: Settings, command: list[str]) -> Service:
    return Service(name, command, LogFile(settings.log_dir / f"{name.replace(' ', '-')}.log"))


def _start_broker(settings: Settings, supervisor: Supervisor) -> None:
    path = settings.broker_socket
    server = broker.find_server()
    broker.prepare_socket(path)
    service = _service("broker", settings, broker.server_command(server, path, settings.data_dir / "run"))
    supervisor.start(service)
    if not supervisor.wait_for(
        lambda: broker.answers(path) or "broker" in supervisor.last_code, seconds=BROKER_SECONDS, every=0.02
    ) or not broker.answers(path):
        reason = " ".join(service.log.last_lines(1))
        raise Failure(f"The Redis server {server} did not start: {reason or 'it said nothing'}.")


def _prepare(supervisor: Supervisor) -> Mapping[str, Any]:
    """Runs the preparation in a process of its own; what it says on stderr is meant for the person."""
    process = subprocess.Popen(  # noqa: S603
        python_command("webapp.commands.prepare"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=tether(),  # noqa: PLW1509
    )
    try:
        supervisor.wait_for(lambda: process.poll() is not None, seconds=PREPARE_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
        output, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(max(process.returncode, 1))
    return json.loads(output)


def _wait_until_ready(settings: Settings, supervisor: Supervisor) -> None:
    """A process that refuses its configuration ends everything: starting it again would not mend that."""
    answer = ""

    def is_ready() -> bool:
        nonlocal answer
        if EXIT_USE in supervisor.last_code.values():
            raise SystemExit(EXIT_USE)
        answer = ask_readiness(settings)
        return answer.startswith("200")

    if not supervisor.wait_for(is_ready, seconds=READY_SECONDS):
        say(coloured(f"Not ready after {READY_SECONDS:.0f} s: {answer or 'the web process does not answer'}", "red"))


def ask_readiness(settings: Settings) -> str:
    """The status and body of `GET /readyz`, or nothing when nobody answers."""
    address = local_address(settings.host, settings.port)
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(f"GET /readyz HTTP/1.1\r\nHost: {_host(settings)}\r\nConnection: close\r\n\r\n".encode())
            with connection.makefile("rb") as answer:
                head, _, body = answer.read().decode(errors="replace").partition("\r\n\r\n")
    except OSError:
        return ""
    return " ".join([*head.split("\r\n", 1)[0].split(" ")[1:2], " ".join(body.split())])


def _host(settings: Settings) -> str:
    return urlsplit(settings.base_url).netloc or settings.host


def _show(settings: Settings, supervisor: Supervisor, prepared: Mapping[str, Any]) -> None:
    pids = {service.name: str(service.process.pid) if service.process else "–" for service in supervisor.services}
    rows = [
        ("web", pids["web"], settings.base_url),
        ("worker exports", pids["worker exports"], f"{settings.worker_slots} exports at a time"),
        ("worker callbacks", pids["worker callbacks"], "deliveries and sweeps"),
        ("broker", pids.get("broker", ""), without_password(settings.redis_url or f"unix:{settings.broker_socket}")),
        ("supervisor", str(os.getpid()), "this process"),
        ("database", "", without_password(settings.database_url)),
        ("files", "", without_password(settings.storage_url)),
        ("datasets", "", _datasets(settings, prepared["datasets"])),
        ("logs", "", str(settings.log_dir)),
    ]
    head, _, body = table([("part", "pid", "where"), *rows]).partition("\n")
    say(f"\n{coloured(head, 'dim')}\n{body}")
    say(f"\nSign in as {prepared['admin']} (once, within the hour):\n  {coloured(prepared['link'], 'bold')}")
    say("\nCtrl-C stops everything.")


def _datasets(settings: Settings, count: int) -> str:
    return f"{counted(count, 'dataset')} of {'the demo shop' if is_demo(settings) else settings.catalog_file}"


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=f"{parts.username or ''}:…@{parts.netloc.rpartition('@')[2]}").geturl()
