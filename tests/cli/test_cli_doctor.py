"""`exportdesk doctor`: a line per part, and the mend for what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from command_line import write_config

from webapp.cli import main
from webapp.commands import doctor_clocks


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
