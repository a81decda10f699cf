"""A PostgreSQL server of a test's own, which it may stop and restart."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cli.command_line import free_port
from needed import missing

STARTED_WITHIN = 120


class Cluster:
    """Its data outlive the end of its processes, not that of the machine."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._programs, self._folder = programs, folder
        # PostgreSQL refuses to run as root.
        self._runner = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync")

    def start(self) -> None:
        """Until it takes connections."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder} -c fsync=off"
        self._control("start", "-l", str(self._folder / "log"), "-o", options)

    def stop(self, mode: str) -> None:
        """`fast` ends sessions in order, `immediate` is a crash: the next start recovers from the log."""
        self._control("stop", "-m", mode)

    def restart(self, mode: str) -> None:
        self._control("restart", "-m", mode, "-l", str(self._folder / "log"))

    def _control(self, action: str, *arguments: str) -> None:
        self._run("pg_ctl", action, "-w", "-t", str(STARTED_WITHIN), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._runner, str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        # No pipe: the server would hold it open.
        with (self._folder / "said").open("wb") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/")
        assert done.returncode == 0, (self._folder / "said").read_text()


@contextmanager
def running_cluster() -> Generator[Cluster]:
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        cluster = Cluster(programs, folder)
        cluster.start()
        try:
            yield cluster
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                cluster.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """Debian keeps those of a server off the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not versions:
        missing("PostgreSQL (initdb, pg_ctl)")
    return versions[-1].parent
