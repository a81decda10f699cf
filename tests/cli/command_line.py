"""The `exportdesk` command as a person runs it: a process, its output and its exit code."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "webapp.cli")


def environment(data_dir: Path, **settings: str) -> dict[str, str]:
    """The surroundings without any setting but these: `PORT="8001"` is EXPORTDESK_PORT."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("EXPORTDESK_")}
    given = {f"EXPORTDESK_{name}": value for name, value in settings.items()}
    return clean | given | {"EXPORTDESK_DATA_DIR": str(data_dir), "NO_COLOR": "1", "PYTHONPATH": str(CHECKOUT)}


def exportdesk(
    *arguments: str, environ: Mapping[str, str], stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=environ, input=stdin, cwd=cwd, text=True, capture_output=True, timeout=60
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_config(folder: Path, source: Path) -> Path:
    """An exportdesk.toml with one dataset of one row."""
    path = folder / "exportdesk.toml"
    path.write_text(f"""
[sources.shop]
url = "sqlite:///{source}"

[datasets.one]
title = "One"
source = "shop"
sql = "SELECT 1 AS one"
""")
    return path
