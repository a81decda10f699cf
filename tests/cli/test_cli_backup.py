"""`exportdesk backup` and `restore`: everything comes back as it was, or nothing does."""

from __future__ import annotations

import asyncio
import json
import stat
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import CONTENT, stored_export

from webapp.actions import people
from webapp.cli import main
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import open_resources
from webapp.settings import read_settings
from webapp.store import exports

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str) -> Path:
    """A migrated desk; its data folder."""
    for name, value in {"DATA_DIR": tmp_path / "data", "REDIS_URL": broker}.items():
        monkeypatch.setenv(f"EXPORTDESK_{name}", str(value))
    assert main(["migrate"]) == 0
    return tmp_path / "data"


@pytest.fixture
def run(desk: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


async def make_exports(*statuses: Status) -> list[Export]:
    async with open_resources(read_settings()) as resources:
        user = await people.add_user(resources, "ada", Role.USER, actor="test")
        viewer = Viewer(user.id, user.name, user.role)
        made = [await stored_export(resources, viewer, status) for status in statuses]
        for export in made:
            if export.file is not None:
                path = resources.storage.path(export.file.key)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(CONTENT)
        return made


async def all_exports() -> dict[str, Status]:
    async with open_resources(read_settings()) as resources, resources.store.connection():
        found = await exports.list_page(resources.store, exports.ListFilter(), limit=100, after=None)
        return {export.id: export.status for export in found}


def test_a_desk_comes_back_as_it_was(desk: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, _, waiting = made = asyncio.run(make_exports(Status.SUCCESS, Status.FAILED, Status.QUEUED))
    code, output, _ = run("backup", tmp_path / "desk.tar")
    assert (code, "the store and 2 other files" in output) == (0, True)
    assert stat.S_IMODE((tmp_path / "desk.tar").stat().st_mode) == 0o600
    assert run("restore", tmp_path / "desk.tar", tmp_path / "again")[0] == 0
    monkeypatch.setenv("EXPORTDESK_DATA_DIR", str(tmp_path / "again"))
    assert asyncio.run(all_exports()) == {export.id: export.status for export in made}
    assert done.file is not None
    assert (tmp_path / "again" / "files" / done.file.key).read_bytes() == CONTENT
    assert (tmp_path / "again" / "secret.key").read_text() == (desk / "secret.key").read_text()
    assert stat.S_IMODE((tmp_path / "again" / "secret.key").stat().st_mode) == 0o600
    assert waiting.status is Status.QUEUED


def test_it_is_whole_while_others_write(desk: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    async def write() -> None:
        async with open_resources(read_settings()) as resources:
            user = await people.add_user(resources, "busy", Role.USER, actor="test")
            while not stop.is_set():
                await stored_export(resources, Viewer(user.id, user.name, user.role), Status.CANCELLED)

    writing = threading.Thread(target=lambda: asyncio.run(write()))
    writing.start()
    try:
        codes = [run("backup", tmp_path / f"{number}.tar")[0] for number in range(3)]
    finally:
        stop.set()
        writing.join()
    assert codes == [0, 0, 0]
    counts: list[int] = []
    for number in range(3):
        assert run("restore", tmp_path / f"{number}.tar", tmp_path / str(number))[0] == 0
        monkeypatch.setenv("EXPORTDESK_DATA_DIR", str(tmp_path / str(number)))
        found = asyncio.run(all_exports())
        assert set(found.values()) <= set(Status)
        counts.append(len(found))
    assert counts == sorted(counts)


def test_what_is_there_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "desk.tar").write_text("something else")
    code, _, problem = run("backup", tmp_path / "desk.tar")
    assert (code, "is there already" in problem) == (2, True)
    assert (tmp_path / "desk.tar").read_text() == "something else"
    assert run("backup", tmp_path / "desk.tar", "--force")[0] == 0
    code, _, problem = run("restore", tmp_path / "desk.tar", tmp_path / "data")
    assert (code, "is not empty" in problem) == (2, True)


@pytest.mark.parametrize("damage", ["cut", "changed", "no manifest", "outside", "not a tar"])
def test_a_damaged_archive_leaves_nothing(run: Run, tmp_path: Path, damage: str) -> None:
    asyncio.run(make_exports(Status.SUCCESS))
    archive = tmp_path / "desk.tar"
    assert run("backup", archive)[0] == 0
    if damage == "cut":
        archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    elif damage == "changed":
        archive.write_bytes(archive.read_bytes().replace(CONTENT[:20], CONTENT[:19] + b"#"))
    elif damage == "not a tar":
        archive.write_bytes(b"nothing of the kind" * 100)
    else:
        _pack(archive, {"exportdesk.db": b""} if damage == "no manifest" else {"../outside": b"x"})
    code, _, problem = run("restore", archive, tmp_path / "again")
    assert (code, problem.count("\n")) == (1, 1)
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "outside").exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".again")] == []


def test_a_file_that_went_meanwhile_is_told(desk: Path, run: Run, tmp_path: Path) -> None:
    [done] = asyncio.run(make_exports(Status.SUCCESS))
    assert done.file is not None
    (desk / "files" / done.file.key).unlink()
    code, output, _ = run("backup", tmp_path / "desk.tar")
    assert (code, "1 finished file went away meanwhile" in output) == (0, True)
    with tarfile.open(tmp_path / "desk.tar") as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        assert set(json.load(manifest)["sha256"]) == {"exportdesk.db", "secret.key"}


def test_postgresql_is_backed_up_by_its_own_means(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPORTDESK_DATABASE_URL", "postgresql://desk@127.0.0.1/desk")
    code, _, problem = run("backup", tmp_path / "desk.tar")
    assert (code, "pg_dump" in problem) == (2, True)


def _pack(archive: Path, files: dict[str, bytes]) -> None:
    folder = archive.with_suffix("")
    folder.mkdir()
    with tarfile.open(archive, "w") as tar:
        for number, (name, content) in enumerate(files.items()):
            path = folder / str(number)
            path.write_bytes(content)
            tar.add(path, name)
