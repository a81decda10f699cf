"""`exportdesk key …`: another key for what is sealed, in two steps, and nothing is lost between them."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from owing import register

from webapp.actions import audit_log
from webapp.cli import main
from webapp.domain.callbacks import Endpoint
from webapp.resources import Resources, open_resources
from webapp.sealing import Unsealable
from webapp.settings import read_settings
from webapp.store import endpoints
from webapp.store.audit import AuditFilter

OLD, NEW = "the old key, long enough".replace(" ", "-"), "the new key, long enough".replace(" ", "-")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str) -> Path:
    """A migrated desk; the file of its key."""
    for name, value in {"DATA_DIR": tmp_path / "data", "REDIS_URL": broker}.items():
        monkeypatch.setenv(f"EXPORTDESK_{name}", str(value))
    assert main(["migrate"]) == 0
    return tmp_path / "data" / "secret.key"


@pytest.fixture
def run(desk: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command; its exit code, output and complaints."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@asynccontextmanager
async def opened() -> AsyncIterator[Resources]:
    async with open_resources(read_settings()) as resources:
        yield resources


def put_endpoints(count: int = 3) -> list[Endpoint]:
    async def put() -> list[Endpoint]:
        async with opened() as resources:
            more: dict[str, Any] = {"headers": (("X-One", "1"),), "encryption_key": "k"}
            return [await register(resources, f"https://93.184.216.34/{n}", **more) for n in range(count)]

    return asyncio.run(put())


def stored(known: list[Endpoint]) -> list[Endpoint | None]:
    """What the keys of now make of them."""

    async def read() -> list[Endpoint | None]:
        async with opened() as resources, resources.store.connection():
            return [await endpoints.get(resources.store, one.id, resources.sealer) for one in known]

    return asyncio.run(read())


def audited_last() -> tuple[str, str, Any]:
    async def read() -> tuple[str, str, Any]:
        async with opened() as resources:
            [entry], _ = await audit_log.page(resources, AuditFilter(), limit=1, after=None)
            return entry.actor, entry.action, entry.details

    return asyncio.run(read())


def keys(desk: Path) -> list[str]:
    return desk.read_text(encoding="utf-8").split()


def test_a_rotation_in_two_steps(desk: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("webapp.commands.key.BATCH", 2)
    known, [old] = put_endpoints(), keys(desk)
    code, out, _ = run("key", "rotate")
    new, kept = keys(desk)
    assert (code, kept, new != old, len(new) >= 16) == (0, old, True, True)
    assert "Restart everything" in out
    assert new not in out
    assert stat.S_IMODE(desk.stat().st_mode) == 0o600
    assert stored(known) == known
    later = put_endpoints(1)
    code, out, _ = run("key", "finish")
    assert (code, keys(desk)) == (0, [new])
    assert "4 endpoints" in out
    assert "one that was not\nrestarted since `exportdesk key rotate`" in out
    assert audited_last() == ("command line", "endpoint.secrets_resealed", {"count": 4})
    assert stat.S_IMODE(desk.stat().st_mode) == 0o600
    assert stored(known + later) == known + later
    assert [path.name for path in desk.parent.iterdir() if path.name.startswith(".secret")] == []
    desk.write_text(old)
    with pytest.raises(Unsealable):
        stored(known)


def test_a_rotation_begins_only_once(desk: Path, run: Callable[..., tuple[int, str, str]]):
    run("key", "rotate")
    before = keys(desk)
    code, _, err = run("key", "rotate")
    assert code != 0
    assert "exportdesk key finish" in err
    assert keys(desk) == before


def test_there_may_be_nothing_to_finish(desk: Path, run: Callable[..., tuple[int, str, str]]):
    code, _, err = run("key", "finish")
    assert code != 0
    assert "exportdesk key rotate" in err
    assert len(keys(desk)) == 1


def test_a_key_from_the_environment(
    desk: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("EXPORTDESK_SECRET_KEY", OLD)
    known, in_file = put_endpoints(), keys(desk)
    code, out, _ = run("key", "rotate")
    assert code == 0
    assert "a space" in out
    assert OLD not in out
    assert any(len(line) == 64 for line in out.splitlines())
    monkeypatch.setenv("EXPORTDESK_SECRET_KEY", f"{NEW} {OLD}")
    code, out, _ = run("key", "finish")
    assert code == 0
    assert "take the old key out of EXPORTDESK_SECRET_KEY" in out
    assert keys(desk) == in_file
    monkeypatch.setenv("EXPORTDESK_SECRET_KEY", NEW)
    assert stored(known) == known


def test_no_key_is_dropped_while_something_needs_it(
    desk: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
):
    [lost] = put_endpoints(1)
    desk.write_text(f"{NEW}\n{OLD}\n")
    code, _, err = run("key", "finish")
    assert code != 0
    assert lost.id in err
    assert keys(desk) == [NEW, OLD]


def test_a_process_that_was_not_restarted_is_noticed(
    desk: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
):
    [old] = keys(desk)
    run("key", "rotate")
    both = keys(desk)

    async def too_late(*_: Any) -> int:
        desk.write_text(old)
        await asyncio.to_thread(put_endpoints, 1)
        desk.write_text("\n".join(both))
        return 0

    monkeypatch.setattr("webapp.commands.key.reseal_all", too_late)
    code, _, err = run("key", "finish")
    assert code != 0
    assert "1 endpoint sealed under the old key" in err
    assert keys(desk) == both


def told(out: str) -> str:
    return next(line for line in out.splitlines() if "sealed secrets" in line)


def test_the_doctor_tries_every_seal(desk: Path, run: Callable[..., tuple[int, str, str]]):
    put_endpoints()
    _, out, _ = run("doctor")
    assert told(out).endswith("all of them open")
    run("key", "rotate")
    _, out, _ = run("doctor")
    assert told(out).endswith("exportdesk key finish")
    desk.write_text(OLD)
    _, out, _ = run("doctor")
    assert told(out).startswith("problem")
    assert "3 endpoints sealed under a key that is not there" in told(out)
