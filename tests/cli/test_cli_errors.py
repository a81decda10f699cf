"""What a mistake at the command line gets: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from command_line import environment, exportdesk, free_port, write_config

from webapp.cli import main
from webapp.commands import check
from webapp.commands.failures import Failure

NAMES = ("up", "web", "worker", "migrate", "user", "token", "datasets", "export", "key", "doctor", "check")


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [name for name in NAMES if f"    {name} " not in shown] == []


@pytest.mark.parametrize("arguments", [["up"], ["worker"], ["user", "add"], ["token", "create"], ["datasets", "check"]])
def test_each_command_has_help(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    assert f"usage: exportdesk {' '.join(arguments)}" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("exportdesk ")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["worker", "cooks"], ["user", "role", "ana", "king"]])
def test_a_command_that_is_not_one_is_an_error_of_use(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: exportdesk" in capsys.readouterr().err


def test_bad_settings_are_told_together_one_a_line(tmp_path):
    environ = environment(tmp_path, PORT="eighty", EXECUTION_LIMIT="soon", LOG_FORMAT="xml")
    done = exportdesk("web", environ=environ)
    assert done.returncode == 2
    names = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert names == ["EXPORTDESK_PORT", "EXPORTDESK_EXECUTION_LIMIT", "EXPORTDESK_LOG_FORMAT"]


@pytest.mark.parametrize("command", ["up", "web", "migrate"])
def test_a_folder_that_cannot_be_written(command):
    done = exportdesk(command, environ=environment(Path("/dev/null/desk")))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "/dev/null/desk" in done.stderr


@pytest.mark.parametrize("command", ["up", "web"])
def test_a_busy_port(command, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = exportdesk(command, environ=environment(tmp_path, PORT=port))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Port {port} on 127.0.0.1 is taken by another program. Stop it, or set EXPORTDESK_PORT to another one.\n"
    )


def test_a_host_that_is_not_ours(tmp_path):
    done = exportdesk("web", environ=environment(tmp_path, HOST="192.0.2.1", PORT=str(free_port())))
    assert (done.returncode, done.stderr) == (
        2,
        "192.0.2.1 is not an address of this machine. Set EXPORTDESK_HOST to one that is.\n",
    )


@pytest.mark.parametrize("arguments", [["web"], ["worker", "exports"], ["user", "list"]])
def test_an_old_schema_names_the_command_that_mends_it(arguments, tmp_path):
    done = exportdesk(*arguments, environ=environment(tmp_path, PORT=str(free_port())))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("Run: exportdesk migrate")
    assert "Traceback" not in done.stderr


def test_migrating_twice(tmp_path):
    environ = environment(tmp_path)
    first, second = exportdesk("migrate", environ=environ), exportdesk("migrate", environ=environ)
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout.startswith("The database went from no tables to version ")
    assert second.stdout.endswith(" already.\n")


def test_a_database_that_is_not_there(tmp_path):
    url = f"postgresql://desk:hush@127.0.0.1:{free_port()}/desk"
    done = exportdesk("migrate", environ=environment(tmp_path, DATABASE_URL=url))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("The database cannot be used: ")
    assert "hush" not in done.stderr


BAD_LINE = """
[sources.shop]
url = "sqlite:///shop.db"

[datasets.things]
title = "Things"
source = "shop"
sql = "SELECT 1"
flavour = "sour"
"""


@pytest.mark.parametrize(("arguments", "code"), [(["datasets", "check"], 1), (["web"], 2)])
def test_a_bad_line_of_the_configuration_is_named(arguments, code, tmp_path):
    config = tmp_path / "exportdesk.toml"
    config.write_text(BAD_LINE)
    environ = environment(tmp_path, CONFIG=str(config), PORT=str(free_port()))
    exportdesk("migrate", environ=environ)
    done = exportdesk(*arguments, environ=environ)
    assert done.returncode == code
    assert (done.stdout + done.stderr).startswith(f"{config}:9: ")


def test_up_refuses_a_bad_line_before_it_serves(tmp_path):
    config = tmp_path / "exportdesk.toml"
    config.write_text(BAD_LINE)
    done = exportdesk("up", environ=environment(tmp_path / "data", CONFIG=str(config), PORT=str(free_port())))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{config}:9: ")
    assert not (tmp_path / "data" / "run" / "redis.sock").exists()


def test_datasets_that_are_all_good(tmp_path, shop):
    config = write_config(tmp_path, shop)
    done = exportdesk("datasets", "check", environ=environment(tmp_path, CONFIG=str(config)))
    assert (done.returncode, done.stdout) == (0, "1 dataset, all good.\n")


def test_check_wants_a_source_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(check, "__file__", str(tmp_path / "webapp" / "commands" / "check.py"))
    with pytest.raises(Failure, match="source checkout"):
        check.run_check()
