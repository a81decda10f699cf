"""`exportdesk check`: what CI runs. Lint, format, types, import rules, then the tests."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

from webapp.commands.failures import EXIT_PROBLEM, Failure
from webapp.commands.terminal import coloured, say, table

TOOLS = ("ruff", "pyright", "importlinter", "pytest", "pytest_timeout", "xdist")
PROCESSES = 4
"""That tests run in: many of them mostly wait."""

STUCK_SECONDS = 300
"""After which a test fails, with what it was doing, rather than keeping the rest from ending."""

RUN_SECONDS = 3600
"""After which no other test begins, so that what has failed is told also on a machine that is too slow."""


def steps() -> list[tuple[str, list[str]]]:
    python = sys.executable
    spread = ["-n", str(PROCESSES), "--dist", "loadfile", "--no-loadscope-reorder"]
    limits = ["--timeout", str(STUCK_SECONDS), "--session-timeout", str(RUN_SECONDS)]
    return [
        ("ruff check", [python, "-m", "ruff", "check"]),
        ("ruff format --check", [python, "-m", "ruff", "format", "--check"]),
        ("pyright", [python, "-m", "pyright", "--pythonpath", python]),
        ("lint-imports", [python, "-c", "from importlinter.cli import lint_imports_command as run; run()"]),
        ("pytest", [python, "-m", "pytest", *spread, *limits]),
    ]


def run_check() -> int:
    """Goes on after a failure. pytest comes last, so that its own summary ends the output."""
    root = source_checkout()
    *first, (name, command) = steps()
    results = [(title, *_run(root, title, step)) for title, step in first]
    say()
    say(table([(title, "ok" if ok else "FAILED", f"{seconds:.1f} s") for title, ok, seconds in results]))
    tests_pass, _ = _run(root, name, command)
    return 0 if tests_pass and all(ok for _, ok, _ in results) else EXIT_PROBLEM


def source_checkout() -> Path:
    """The folder of pyproject.toml. Raises Failure when this is an installed copy, or the tools are missing."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file() or not (root / "tests").is_dir():
        raise Failure("check runs in a source checkout that was installed with: pip install -e '.[dev]'")
    missing = [tool for tool in TOOLS if importlib.util.find_spec(tool) is None]
    if missing:
        raise Failure(f"{', '.join(missing)} cannot be found. Run: pip install -c constraints.txt -e '.[dev]'")
    return root


def _run(root: Path, title: str, command: list[str]) -> tuple[bool, float]:
    say(coloured(f"\n== {title}", "bold"))
    start = time.monotonic()
    ok = subprocess.run(command, cwd=root, check=False).returncode == 0  # noqa: S603
    seconds = time.monotonic() - start
    if title != "pytest":
        say(coloured(f"{title}: {'ok' if ok else 'FAILED'} in {seconds:.1f} s", "green" if ok else "red"))
    return ok, seconds
