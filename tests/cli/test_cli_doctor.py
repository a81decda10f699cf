"""`exportdesk doctor`: a line per part, and the mend for what is wrong."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from command_line import write_config
from mail_servers import mail_server
from openid_provider import provider as provider
from patience import PATIENCE
from sink_servers import redis_sink

from webapp.cli import main
from webapp.commands import doctor_clocks

__all__ = ["redis_sink"]


@pytest.fixture
def desk(tmp_path, monkeypatch, shop, broker):
    """A migrated desk with a broker and one dataset, whose workers are not running."""
    config = write_config(tmp_path, shop)
    settings = {"DATA_DIR": tmp_path / "data", "CONFIG": config, "REDIS_URL": broker}
    for name, value in settings.items():
        monkeypatch.setenv(f"EXPORTDESK_{name}", str(value))
    assert main(["migrate"]) == 0
    return tmp_path / "data"


@pytest.fixture
def examine(desk, capsys):
    """Runs the doctor; gives back its exit code and what it said of each part."""
    capsys.readouterr()

    def examine() -> tuple[int, dict[str, tuple[str, str]]]:
        code = main(["doctor"])
        lines = capsys.readouterr().out.splitlines()
        return code, {line[9:25].strip(): (line[:7].strip(), line[27:]) for line in lines}

    return examine


def test_a_desk_without_workers(examine):
    code, parts = examine()
    assert code == 1
    wrong = {name for name, (verdict, _) in parts.items() if verdict == "problem"}
    assert wrong - {"front end"} == {"workers"}
    assert parts["workers"][1].endswith("→ start one: exportdesk worker exports")


def test_a_secret_key_that_others_can_read(examine, desk):
    (desk / "secret.key").chmod(0o644)
    _, parts = examine()
    assert parts["secret key"] == (
        "problem",
        f"{desk}/secret.key can be read by others (mode 0644) → chmod 600 {desk}/secret.key",
    )


def test_a_broker_that_is_not_there(examine, desk, monkeypatch):
    monkeypatch.setenv("EXPORTDESK_REDIS_URL", f"unix://{desk}/nothing.sock")
    _, parts = examine()
    assert parts["broker"][0] == "problem"
    assert "EXPORTDESK_REDIS_URL" in parts["broker"][1]


def test_a_warning_is_no_problem(examine, monkeypatch):
    code = examine()[0]
    monkeypatch.setattr(doctor_clocks, "host_now", lambda: datetime.now(UTC) + timedelta(seconds=3))
    again, parts = examine()
    assert parts["clocks"][0] == "warning"
    assert " ahead of that of the database → let NTP" in parts["clocks"][1]
    assert again == code


def test_the_change_log_goes_nowhere_unless_it_is_told_where(examine):
    assert examine()[1]["event sink"] == ("ok", "the change log goes nowhere else")


def test_a_sink_that_answers(examine, monkeypatch, redis_sink):
    monkeypatch.setenv("EXPORTDESK_EVENT_SINK_URL", redis_sink.url)
    verdict, told = examine()[1]["event sink"]
    assert verdict == "ok"
    assert told == f"the stream exports at 127.0.0.1:{redis_sink.port} answers, 0 entries"


@pytest.mark.parametrize(
    ("url", "told", "mend"),
    [
        ("redis://:hush@127.0.0.1:{port}/exports", "username-password pair", "check the user and the password"),
        ("redis://:hush-hush@127.0.0.1:{port}/3/text", "text is a string there, not a stream", "name another stream"),
        ("redis://:hush-hush@127.0.0.1:1/exports", "127.0.0.1:1", "start it, or check EXPORTDESK_EVENT_SINK_URL"),
        ("kafka://127.0.0.1:1/exports", "Connection refused", "start it, or check EXPORTDESK_EVENT_SINK_URL"),
    ],
)
def test_a_sink_that_cannot_be_used(examine, monkeypatch, redis_sink, url, told, mend):
    with redis_sink.client as client:
        client.set("text", "x")
    monkeypatch.setattr("webapp.sinks.kafka.METADATA_SECONDS", 1.0)
    monkeypatch.setenv("EXPORTDESK_EVENT_SINK_URL", url.format(port=redis_sink.port))
    verdict, line = examine()[1]["event sink"]
    assert verdict == "problem"
    assert told in line
    assert mend in line
    assert "hush" not in line


def test_a_sink_whose_package_is_not_there(examine, monkeypatch):
    monkeypatch.setitem(sys.modules, "webapp.sinks.kafka", None)
    monkeypatch.setenv("EXPORTDESK_EVENT_SINK_URL", "kafka://127.0.0.1/exports")
    assert examine()[1]["event sink"] == (
        "problem",
        "EXPORTDESK_EVENT_SINK_URL needs the package confluent-kafka "
        "→ install exportdesk with its extra kafka: pip install '.[kafka]'",
    )


def test_a_change_log_that_nobody_sends(examine, desk, monkeypatch, redis_sink):
    monkeypatch.setenv("EXPORTDESK_EVENT_SINK_URL", redis_sink.url)
    with sqlite3.connect(desk / "exportdesk.db") as connection:
        insert = (
            "INSERT INTO events (id, type, export_id, owner, version, timestamp, data) VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        hour_ago = (time.time() - 3600) * 1000
        connection.execute(insert, ("evt_1", "export.created", "exp_1", "usr_1", 1, hour_ago, "{}"))
    connection.close()
    verdict, line = examine()[1]["event sink"]
    assert verdict == "problem"
    assert ", but it was not sent 1 event, the oldest for 1 h" in line


def test_an_old_schema(examine, desk, monkeypatch):
    monkeypatch.setenv("EXPORTDESK_DATABASE_URL", f"sqlite:///{desk}/other.db")
    _, parts = examine()
    assert parts["database"][0] == "problem"
    assert "exportdesk migrate" in parts["database"][1]


def test_a_dataset_whose_query_fails(examine, tmp_path):
    config = tmp_path / "exportdesk.toml"
    config.write_text(config.read_text().replace("SELECT 1 AS one", "SELECT * FROM nowhere"))
    _, parts = examine()
    assert parts["datasets"][0] == "problem"
    assert "nowhere" in parts["datasets"][1]


def test_settings_that_cannot_be_used(examine, monkeypatch):
    monkeypatch.setenv("EXPORTDESK_PORT", "0")
    code, parts = examine()
    assert code == 1
    assert parts["settings"][0] == "problem"


def test_a_provider_of_sign_ins(examine, monkeypatch, provider):
    assert examine()[1]["sign-in"] == ("ok", "by password and one-time link")
    monkeypatch.setenv("EXPORTDESK_OIDC_ISSUER", provider.issuer)
    monkeypatch.setenv("EXPORTDESK_OIDC_CLIENT_ID", "desk")
    found, line = examine()[1]["sign-in"]
    assert (found, "EXPORTDESK_BASE_URL" in line) == ("problem", True)
    monkeypatch.setenv("EXPORTDESK_BASE_URL", "https://exports.example.org")
    found, line = examine()[1]["sign-in"]
    assert (found, "https://exports.example.org/sign-in/openid/callback" in line) == ("ok", True), line
    provider.stop()
    found, line = examine()[1]["sign-in"]
    assert (found, "cannot be reached" in line, "EXPORTDESK_OIDC_ISSUER" in line) == ("problem", True, True)


@pytest.fixture
def mailing():
    """A mail server with a password, in a thread of its own: the doctor runs its own loop."""
    with ThreadPoolExecutor(1) as thread:
        loop, ready = asyncio.new_event_loop(), queue.SimpleQueue[Any]()

        async def serve() -> None:
            async with mail_server(has_auth=True) as made:
                ending = asyncio.Event()
                ready.put((made, ending))
                await ending.wait()

        running = thread.submit(loop.run_until_complete, serve())
        server, ending = ready.get(timeout=PATIENCE)
        yield server
        loop.call_soon_threadsafe(ending.set)
        running.result(timeout=PATIENCE)
        loop.close()


@pytest.mark.parametrize(
    ("url", "verdict", "told"),
    [
        ("smtp://desk:s3cret%2Fword@127.0.0.1:{port}?starttls=never", "ok", "answers, in plain text"),
        ("smtp://desk:hush@127.0.0.1:{port}?starttls=never", "problem", "check user and password"),
        ("smtp://desk:hush@127.0.0.1:{port}", "problem", "?starttls=never"),
        ("smtps://desk:hush@127.0.0.1:{port}", "problem", "SSL_CERT_FILE names"),
        ("smtp://desk:hush@127.0.0.1:1", "problem", "check host, port and scheme"),
    ],
)
def test_a_mail_server(examine, monkeypatch, mailing, url, verdict, told):
    monkeypatch.setenv("EXPORTDESK_SMTP_URL", url.format(port=mailing.port))
    monkeypatch.setenv("EXPORTDESK_SMTP_FROM", "desk@example.org")
    found, line = examine()[1]["mail server"]
    assert (found, "EXPORTDESK_BASE_URL" in line) == ("problem", True)
    monkeypatch.setenv("EXPORTDESK_BASE_URL", "https://exports.example.org")
    found, line = examine()[1]["mail server"]
    assert found == verdict, line
    assert told in line
    assert "hush" not in line
    assert mailing.mails == []
