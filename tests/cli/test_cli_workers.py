"""`exportdesk workers …` and `exportdesk queue …`, on a desk whose broker is away."""

from __future__ import annotations

import asyncio

import pytest
from command_line import write_config

from webapp.actions import workers
from webapp.cli import main
from webapp.domain.workers import Queue
from webapp.resources import open_resources
from webapp.settings import read_settings


@pytest.fixture
def run(tmp_path, monkeypatch, shop, capsys):
    """Runs a command on a migrated desk; gives back (exit code, stdout, stderr)."""
    config = write_config(tmp_path, shop)
    for name, value in {"DATA_DIR": tmp_path, "CONFIG": config, "BASE_URL": "http://desk.test"}.items():
        monkeypatch.setenv(f"EXPORTDESK_{name}", str(value))
    assert main(["migrate"]) == 0
    capsys.readouterr()

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


async def begin() -> str:
    async with open_resources(read_settings()) as resources:
        return (await workers.begin(resources, [Queue.EXPORTS])).id


def test_a_worker_is_listed_drained_and_kept(run) -> None:
    worker_id = asyncio.run(begin())
    assert worker_id in run("workers", "list")[1]
    assert "takes nothing new" in run("workers", "drain", worker_id, "--within", "1h")[1]
    assert "draining" in run("workers", "list")[1]
    assert "goes on" in run("workers", "keep", worker_id)[1]
    assert "alive" in run("workers", "list")[1]


@pytest.mark.parametrize("arguments", [("drain", "wrk_1"), ("keep", "wrk_1"), ("drain", "wrk_1", "--within", "soon")])
def test_what_cannot_be_done_is_explained(run, arguments: tuple[str, ...]) -> None:
    code, _, error = run("workers", *arguments)
    assert code != 0
    assert "No worker wrk_1 is alive" in error or "--within" in error


def test_a_queue_is_paused_and_resumed(run) -> None:
    assert run("queue", "pause", "exports")[0] == 0
    assert "command line" in run("queue", "list")[1]
    assert run("queue", "resume", "exports")[1] == "The exports go on.\n"
    assert "command line" not in run("queue", "list")[1]
