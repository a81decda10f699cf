"""`/admin/sources` and `/admin/datasets/new`: forms that write the catalog's file, and the card that leads to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from factories import stored_export
from owing import register
from pages.dom import node, nodes, text, texts
from sqlalchemy.engine import make_url

from webapp.actions import groups, saved_orders, schedules
from webapp.actions.exports import Order
from webapp.actions.source_edits import shown_url
from webapp.actions.source_secrets import place_of
from webapp.commands.datasets import run_datasets_check
from webapp.datasets.catalog import demo_path
from webapp.datasets.declaring import without_dataset, without_source
from webapp.datasets.demo import make_demo
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources, open_holder
from webapp.settings import Settings

ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]
DATASET = {
    "name": "stock",
    "title": "Stock",
    "description": "What is there.",
    "source": "own",
    "sql": "SELECT * FROM things\nWHERE id <= :most AND (:word IS NULL OR name LIKE '%' || :word || '%')",
    "formats": ["csv", "xlsx"],
    "p.most.type": "integer",
    "p.most.label": "At most",
    "p.most.required": "1",
    "p.most.default": "10",
    "p.word.type": "string",
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A desk that was just installed: no file says what can be exported."""
    return replace(settings, config=None)


async def seen(client: httpx.AsyncClient, path: str = "/admin/sources/new") -> str:
    return node(await client.get(path), "main input[name=seen]").attributes["value"] or ""


async def connect(client: httpx.AsyncClient, shop: Path, **changes: str) -> httpx.Response:
    form = {"kind": "sqlite", "name": "own", "url": str(shop), "seen": await seen(client)}
    return await client.post("/admin/sources", data={**form, **changes})


async def write(client: httpx.AsyncClient, path: str = "/admin/datasets/new", **changes: Any) -> httpx.Response:
    form = {**DATASET, "seen": await seen(client, path), **changes}
    return await client.post(path, data={name: value for name, value in form.items() if value is not None})


async def test_the_first_source_and_dataset_make_the_file_beside_the_demo(
    admin_client: httpx.AsyncClient, resources: Resources, settings: Settings, shop: Path
) -> None:
    file, elsewhere = settings.catalog_file, open_holder(settings)
    assert not file.exists()
    assert set(resources.catalog.sources) == {"shop"}
    connected = await connect(admin_client, shop)
    assert (connected.status_code, connected.headers["location"]) == (303, "/admin/sources")
    assert resources.catalog.sources["own"].url == f"sqlite:///{shop}"
    assert {"orders", "customers", "products"} == set(resources.catalog.datasets), "the demo stays"
    assert demo_path(settings.data_dir) == Path(resources.catalog.sources["shop"].url.removeprefix("sqlite:///"))
    before = file.read_text(encoding="utf-8")
    assert texts(await admin_client.get("/admin/sources"), "main .row-title") == ["shop", "own"]
    written = await write(admin_client)
    assert (written.status_code, written.headers["location"]) == (303, "/admin/datasets/stock")
    assert file.with_name("exportdesk.toml.bak").read_text(encoding="utf-8") == before
    assert file.read_text(encoding="utf-8").startswith(before.rstrip()), "all that stood there stands there still"
    assert file.stat().st_mode & 0o777 == 0o600
    found = resources.catalog.datasets["stock"]
    assert (found.formats, [(p.name, p.type, p.required, p.default) for p in found.parameters]) == (
        ("csv", "xlsx"), [("most", "integer", True, 10), ("word", "string", False, None)],
    )  # fmt: skip
    assert (await admin_client.get("/exports/new?dataset=stock")).status_code == 200
    make_demo(demo_path(settings.data_dir), orders=10) if not demo_path(settings.data_dir).exists() else None
    assert run_datasets_check(settings) == 0, "what the command says of the file"
    assert elsewhere.refresh(), "every other process looks, and finds the file that was not there"
    assert elsewhere.state.catalog.datasets["stock"] == found


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"url": "/nowhere/shop.db"}, "url", "There is no file /nowhere/shop.db."),
        ({"url": "{folder}/text.db"}, "url", "could not be reached: file is not a database."),
        ({"url": "/nowhere/${{SOURCE_PASS}}.db"}, "url", "could not be reached"),
        ({"kind": "files", "url": "/nowhere/${{SOURCE_PASS}}.csv"}, "url", "could not be reached"),
        (
            {"kind": "postgresql", "url": "postgresql://a@127.0.0.1:1/db?connect_timeout=${{SOURCE_PASS}}"},
            "url",
            "could not be reached",
        ),
        ({"url": "python:///etc/x.py"}, "url", "no address of the chosen kind"),
        ({"kind": "mysql", "url": "mysql://a:${{SOURCE_WORD}}@h/db"}, "url", "SOURCE_WORD is not set"),
        ({"kind": "postgresql", "url": "postgresql://a:open-sesame@127.0.0.1:1/db"}, "url", "kept in clear"),
        ({"kind": "postgresql", "url": "postgresql://a@127.0.0.1:1/db"}, "url", "Connection refused"),
        (
            {"kind": "postgresql", "url": "postgresql://a:${{SOURCE_PASS}}@127.0.0.1:1/db"},
            "url",
            "could not be reached: nothing listens at this host and port.",
        ),
        (
            {"kind": "mysql", "url": "mysql://a:${{SOURCE_PASS}}@127.0.0.1:1/db"},
            "url",
            "could not be reached: nothing listens at this host and port.",
        ),
        (
            {"kind": "postgresql", "url": "postgresql://a:${{SOURCE_PASS}}@desk.invalid/db"},
            "url",
            "could not be reached: no host of this name is known.",
        ),
        (
            {"kind": "postgresql", "url": "postgresql://a:${{PASSWORD}}@127.0.0.1:1/db"},
            "url",
            "Only what is named like",
        ),
        ({"kind": "postgresql", "url": "postgresql://a:${{AWS_SECRET_ACCESS_KEY}}@h/db"}, "url", "Only what is named"),
        ({"kind": "postgresql", "url": "${{PASSWORD}}"}, "url", "Only what is named like"),
        ({"kind": "mysql", "url": "mysql://a:${{file:/proc/self/environ}}@h/db"}, "url", "Only what is named like"),
        ({"kind": "mysql", "url": "mysql://a:${{file:/a/source_b/../c}}@h/db"}, "url", "Only what is named like"),
        ({"kind": "mysql", "url": "mysql://a:${{file:{folder}/source_b}}@h/db"}, "url", "cannot be read"),
        ({"kind": "postgresql", "url": "postgresql://a:${{EXPORTDESK_SECRET_KEY}}@h/db"}, "url", "own settings"),
        ({"url": "{data}/exportdesk.db"}, "url", "own data folder"),
        ({"url": "exportdesk.db"}, "url", "own data folder"),
        ({"kind": "files", "url": "{folder}/**/*.csv"}, "url", "own data folder"),
        ({"kind": "postgresql", "url": "postgresql://a:${{file:{data}/source_key}}@h/db"}, "url", "own data folder"),
        ({"kind": "python"}, "kind", "Choose one of these"),
        ({"name": "Own"}, "name", "small letter"),
        ({"name": "shop"}, "name", "There is a source of this name already."),
        ({"url": ""}, "url", "1 to 2,000 characters"),
    ],
)
async def test_a_source_that_cannot_be_used_is_not_written(
    admin_client: httpx.AsyncClient,
    settings: Settings,
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    field: str,
    told: str,
) -> None:
    monkeypatch.setenv("PASSWORD", "told-to-nobody")
    monkeypatch.setenv("SOURCE_PASS", "told-to-nobody")
    (settings.data_dir / "source_key").write_text("told-to-nobody", encoding="utf-8")
    (tmp_path / "text.db").write_text("no database at all, only text " * 40, encoding="utf-8")
    given = {name: value.format(folder=tmp_path, data=settings.data_dir) for name, value in changes.items()}
    answer = await connect(admin_client, shop, **given)
    assert answer.status_code == 422
    assert told in text(answer, f"#error-{field}")
    assert "exportdesk doctor" in text(answer, "#summary")
    assert "open-sesame" not in text(answer, "#summary")
    assert "told-to-nobody" not in answer.text
    assert not settings.catalog_file.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"username": "nobody-of-this-name"}, "it refused the user or the password."),
        ({"database": "no-database-of-this-name"}, "it has no database of this name."),
    ],
)
async def test_what_a_server_refuses_is_told_without_its_words(
    admin_client: httpx.AsyncClient,
    shop: Path,
    postgres: str,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    told: str,
) -> None:
    """They may quote what a secret put into the address."""
    monkeypatch.setenv("SOURCE_PASS", "told-to-nobody")
    url = make_url(postgres).set(drivername="postgresql", query={}, **changes)
    filled = url.set(password="X").render_as_string(hide_password=False).replace(":X@", ":${SOURCE_PASS}@")
    answer = await connect(admin_client, shop, kind="postgresql", url=filled)
    assert text(answer, "#error-url") == f"The data source could not be reached: {told}"


async def test_trying_writes_nothing(admin_client: httpx.AsyncClient, settings: Settings, shop: Path) -> None:
    answer = await connect(admin_client, shop, only="try")
    assert (answer.status_code, text(answer, "main .summary[role=status]")) == (
        200,
        "It answers. Nothing was written yet.",
    )
    assert not settings.catalog_file.exists()


async def test_an_edit_meanwhile_is_never_overwritten(
    admin_client: httpx.AsyncClient, settings: Settings, shop: Path
) -> None:
    old = await seen(admin_client)
    assert (await connect(admin_client, shop)).status_code == 303
    content = settings.catalog_file.read_bytes()
    refused = await connect(admin_client, shop, name="second", seen=old)
    assert "changed by somebody else meanwhile" in text(refused, "#summary")
    assert settings.catalog_file.read_bytes() == content
    again = node(refused, "main input[name=seen]").attributes["value"] or ""
    assert (await connect(admin_client, shop, name="second", seen=again)).status_code == 303


async def test_a_read_only_file_is_left_alone(admin_client: httpx.AsyncClient, settings: Settings, shop: Path) -> None:
    await connect(admin_client, shop)
    settings.catalog_file.chmod(0o444)
    assert "is read-only" in text(await connect(admin_client, shop, name="second"), "#summary")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sql": "SELECT * FROM nowhere", "p.most.type": None}, "no such table: nowhere"),
        ({"sql": "DELETE FROM things", "p.most.type": None}, ""),
        ({"sql": ""}, "1 to 20,000 characters"),
        ({"sql": "SELECT ?"}, "write parameters as :name"),
        ({"p.most.default": "ten"}, ":most: this default does not fit its type."),
        (
            {"p.word.type": "date", "p.word.default": "sometime"},
            ":word: a default is a time such as 2026-01-31, or moves",
        ),
        ({"p.word.type": "choice"}, "choices of :word, one in each line"),
        ({"title": ""}, "1 to 200 characters"),
        ({"name": "orders"}, "There is a dataset of this name already."),
        ({"name": "../x"}, "small letter"),
        ({"formats": []}, "Choose at least one format."),
        ({"source": "nowhere"}, "Choose a source."),
    ],
)
async def test_a_dataset_that_would_not_pass_the_check_is_not_written(
    admin_client: httpx.AsyncClient, settings: Settings, shop: Path, changes: dict[str, Any], told: str
) -> None:
    await connect(admin_client, shop)
    content = settings.catalog_file.read_bytes()
    answer = await write(admin_client, **changes)
    assert answer.status_code == 422
    assert told in text(answer, "#summary")
    assert settings.catalog_file.read_bytes() == content


async def test_the_draft_finds_parameters_and_shows_rows(admin_client: httpx.AsyncClient, shop: Path) -> None:
    await connect(admin_client, shop)
    form = {**DATASET, "p.most.default": "", "p.most.trial": "3", "p.word.label": "Word", "name": "", "title": ""}
    answer = await admin_client.post("/admin/datasets/new/draft", data=form, headers={"HX-Request": "true"})
    assert texts(answer, ".parameter legend") == [":most", ":word"]
    assert len(nodes(answer, "tbody tr")) == 3
    without = await admin_client.post("/admin/datasets/new/draft", data=form)
    assert node(without, "#parameter-word-label").attributes["value"] == "Word", "the whole page without JavaScript"
    broken = await admin_client.post("/admin/datasets/new/draft", data={**form, "sql": "SELECT vanished FROM things"})
    assert text(broken, ".preview .message") == "The data source refused the query: no such column: vanished."
    moving = {**form, "p.word.type": "datetime", "p.word.default": "soon"}
    mistaken = await admin_client.post("/admin/datasets/new/draft", data=moving)
    assert text(mistaken, ".preview .message").startswith(":word: a default is a time such as 2026-01-31T14:30:00Z")


@pytest.mark.parametrize(
    ("fields", "rows", "told"),
    [
        ({}, 0, ":most, :word"),
        ({"p.most.required": "1"}, 0, ":most, :word"),
        ({"p.word.default": "w"}, 0, ":most"),
        ({"p.most.trial": "3"}, 3, ""),
    ],
)
async def test_a_preview_that_waits_for_values_says_whose(
    admin_client: httpx.AsyncClient, shop: Path, fields: dict[str, str], rows: int, told: str
) -> None:
    await connect(admin_client, shop)
    form = {**DATASET, "p.most.default": ""}
    del form["p.most.required"]
    answer = await admin_client.post(
        "/admin/datasets/new/draft", data={**form, **fields}, headers={"HX-Request": "true"}
    )
    assert len(nodes(answer, "tbody tr")) == rows
    assert texts(answer, ".preview-empty code") == ([told] if told else [])
    assert nodes(answer, ".preview .message") == []


async def test_a_parameter_that_was_just_found_has_a_likely_type(admin_client: httpx.AsyncClient, shop: Path) -> None:
    await connect(admin_client, shop)
    sql = "SELECT * FROM things WHERE id <= :most AND made >= :since AND name = :called AND price < :ceiling"
    form = {"source": "own", "sql": sql, "formats": "csv", "p.since.type": "string"}
    answer = await admin_client.post("/admin/datasets/new/draft", data=form, headers={"HX-Request": "true"})
    chosen = [found.attributes["value"] for found in nodes(answer, ".parameter option[selected]")]
    assert chosen == ["integer", "string", "string", "number"], "what was chosen already stays"
    without = await admin_client.post("/admin/datasets/new/draft", data={**form, "p.most.type": "number"})
    assert nodes(without, "#parameter-most option[selected]")[0].attributes["value"] == "number"


async def test_editing_keeps_what_no_form_knows(
    admin_client: httpx.AsyncClient, resources: Resources, settings: Settings, shop: Path
) -> None:
    await connect(admin_client, shop)
    await write(admin_client)
    file = settings.catalog_file
    more = file.read_text(encoding="utf-8").replace(
        "[datasets.stock.parameters.most]\n",
        "row_limit = 7 # few\n\n[datasets.stock.parameters.most] # how many\nmaximum = 50\n",
    )
    file.write_text(more, encoding="utf-8")
    resources.holder.refresh()
    path = "/admin/datasets/stock/edit"
    shown = await admin_client.get(path)
    assert node(shown, "#parameter-most-default").attributes["value"] == "10"
    assert (await write(admin_client, path)).status_code == 303
    assert file.read_text(encoding="utf-8") == more, "nothing was changed, so nothing changes"
    sql = "SELECT * FROM things WHERE id <= :most"
    assert (await write(admin_client, path, sql=sql, title="Few", **{"p.most.default": "5"})).status_code == 303
    changed = resources.catalog.datasets["stock"]
    assert (changed.title, changed.row_limit, [p.name for p in changed.parameters]) == ("Few", 7, ["most"])
    assert (changed.parameters[0].default, changed.parameters[0].maximum) == (5, 50)
    assert "# few" in file.read_text(encoding="utf-8")
    assert "# how many" in file.read_text(encoding="utf-8")


async def test_a_file_with_mistakes_is_told_and_left_alone(
    admin_client: httpx.AsyncClient, settings: Settings, shop: Path
) -> None:
    await connect(admin_client, shop)
    await write(admin_client)
    settings.catalog_file.write_text("[sources\n", encoding="utf-8")
    for answer in (
        await connect(admin_client, shop, name="x"),
        await write(admin_client, "/admin/datasets/stock/edit"),
    ):
        assert answer.status_code == 422
    assert settings.catalog_file.read_text(encoding="utf-8") == "[sources\n"


async def test_every_save_is_audited(admin_client: httpx.AsyncClient, shop: Path) -> None:
    await connect(admin_client, shop)
    await write(admin_client)
    await write(admin_client, "/admin/datasets/stock/edit", title="More")
    log = (await admin_client.get("/admin/audit.csv")).text
    for action, subject in (("source.added", "own"), ("dataset.added", "stock"), ("dataset.changed", "stock")):
        assert any(action in line and subject in line and "admin" in line for line in log.splitlines())


async def change(client: httpx.AsyncClient, url: str, **changes: str) -> httpx.Response:
    path = "/admin/sources/own/edit"
    return await client.post(path, data={"kind": "sqlite", "url": url, "seen": await seen(client, path), **changes})


async def test_a_source_is_changed_once_it_answers(
    admin_client: httpx.AsyncClient, resources: Resources, settings: Settings, shop: Path
) -> None:
    await connect(admin_client, shop)
    file, moved = settings.catalog_file, shop.with_name("moved.db")
    url = f'url = "sqlite:///{shop}"'
    file.write_text(file.read_text().replace(url, f"# the shop\n{url} # nightly\nmax_running = 2"), encoding="utf-8")
    resources.holder.refresh()
    before = file.read_text(encoding="utf-8")
    shown = await admin_client.get("/admin/sources/own/edit")
    assert node(shown, "#url").attributes["value"] == f"sqlite:///{shop}"
    refused = await change(admin_client, str(moved))
    assert (refused.status_code, text(refused, "#error-url")) == (422, f"There is no file {moved}.")
    assert (await change(admin_client, f"sqlite:///{shop}")).status_code == 303
    assert file.read_text(encoding="utf-8") == before, "nothing was changed, so nothing changes"
    shop.rename(moved)
    assert text(await change(admin_client, str(moved), only="try"), "main .summary[role=status]").startswith(
        "It answers"
    )
    assert file.read_text(encoding="utf-8") == before
    assert (await change(admin_client, str(moved))).status_code == 303
    assert file.read_text(encoding="utf-8") == before.replace(str(shop), str(moved))
    source = resources.catalog.sources["own"]
    assert (source.url, source.max_running) == (f"sqlite:///{moved}", 2)
    assert (await admin_client.get("/admin/sources/nowhere/edit")).status_code == 404


async def test_no_password_of_a_source_is_shown(
    admin_client: httpx.AsyncClient, resources: Resources, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "told-to-nobody")
    settings.catalog_file.write_text(
        """
        [sources.own]
        url = "postgresql://a:open-sesame@127.0.0.1:1/db"
        [sources.other]
        url = "postgresql://a:${PASSWORD}@127.0.0.1:1/db"
        [datasets.one]
        title = "One"
        source = "other"
        sql = "SELECT 1 AS one"
        """,
        encoding="utf-8",
    )
    resources.holder.refresh()
    other = await admin_client.get("/admin/sources/other/edit")
    assert node(other, "#url").attributes["value"] == "postgresql://a:${PASSWORD}@127.0.0.1:1/db"
    again = await change(admin_client, "postgresql://b:${PASSWORD}@127.0.0.1:1/db", kind="postgresql")
    assert "could not be reached" in text(again, "#error-url"), "what the file refers to already may be used again"
    shown = await admin_client.get("/admin/sources/own/edit")
    assert node(shown, "#url").attributes["value"] == "postgresql://a:***@127.0.0.1:1/db"
    same = await change(admin_client, "postgresql://a:***@127.0.0.1:1/db", kind="postgresql")
    assert "could not be reached" in text(same, "#error-url")
    elsewhere = await change(admin_client, "postgresql://a:***@127.0.0.1:2/db", kind="postgresql")
    assert "kept in clear" in text(elsewhere, "#error-url"), "the password is sent nowhere else"
    for answer in (other, shown, same, elsewhere):
        assert "open-sesame" not in answer.text
        assert "told-to-nobody" not in answer.text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://a:b@h/db", "postgresql://a:***@h/db"),
        ("postgresql://a:${B}@h/db", "postgresql://a:${B}@h/db"),
        ("postgresql://a:${B}c@h/db", "postgresql://a:***@h/db"),
        ("postgresql://a:b@c/d@h/db?x=1", "postgresql://a:***@h/db?x=1"),
        ("mysql://${A}:${file:/run/b}@h/db?ssl=1", "mysql://${A}:${file:/run/b}@h/db?ssl=1"),
        ("mysql://h/db?user=a&sslpassword=b&c=d", "mysql://h/db?user=a&sslpassword=***&c=d"),
        ("mysql://h/db?password=${B}&c=d", "mysql://h/db?password=${B}&c=d"),
        ("postgresql://h:5432/db", "postgresql://h:5432/db"),
        ("sqlite:////srv/air.db", "sqlite:////srv/air.db"),
        ("${AIR}", "${AIR}"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://a:${B}@H:5432/db", "postgresql://h?"),
        ("postgres://c@h/other", "postgresql://h?"),
        ("postgresql://a:${B}@h:5433/db", "postgresql://h:5433?"),
        ("postgresql://a:${B}@h,evil/db", "postgresql://h,evil?"),
        ("postgresql://a:${B}@h/db?sslmode=disable", "postgresql://h?sslmode=disable"),
        ("postgresql://a:${B}@${file:/run/h}/db", "postgresql://${file:/run/h}?"),
        ("postgresql://a:${B}@evil,x@h/db", "postgresql://a:${B}@evil,x@h/db"),
        ("mariadb://a:${B}@h/db", "mysql://h?"),
        ("${B}", "${B}"),
        ("${B}://h/db", "${B}://h/db"),
        ("sqlite:///${B}/air.db", "local"),
        ("files:///${B}/*.csv", "local"),
    ],
)
def test_where_a_secret_goes(url: str, place: str) -> None:
    assert place_of(url) == place


async def test_a_secret_goes_to_its_own_server_alone(
    admin_client: httpx.AsyncClient,
    resources: Resources,
    settings: Settings,
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever changes the address, or takes out the source and connects another; not what the file's editor wrote."""
    monkeypatch.setenv("SOURCE_PASS", "told-to-nobody")
    monkeypatch.setenv("SOURCE_NEW", "told-to-nobody")
    (tmp_path / "source_word").write_text("told-to-nobody", encoding="utf-8")
    (tmp_path / "source_link").symlink_to(tmp_path / "source_word")
    written = f"""
        [sources.own]
        url = "postgresql://a:${{SOURCE_PASS}}@127.0.0.1:1/db"
        [sources.word]
        url = "postgresql://a:${{file:{tmp_path}/source_word}}@127.0.0.1:1/db"
        [sources.shop]
        url = "sqlite:///{shop}"
        [datasets.one]
        title = "One"
        source = "shop"
        sql = "SELECT 1 AS one"
        """
    settings.catalog_file.write_text(written, encoding="utf-8")
    resources.holder.refresh()

    async def told(reference: str, port: int, name: str = "new") -> str:
        url = f"postgresql://b:${{{reference}}}@127.0.0.1:{port}/db"
        if name == "own":
            return text(await change(admin_client, url, kind="postgresql"), "#error-url")
        return text(await connect(admin_client, shop, name=name, kind="postgresql", url=url), "#error-url")

    assert "could not be reached" in await told("SOURCE_PASS", 1, "own")
    refused = await told("SOURCE_PASS", 2, "own")
    assert refused.startswith("${SOURCE_PASS} is the secret of another server, and is sent there alone.")
    confirmed = {"confirmed": "1", "seen": await seen(admin_client)}
    assert (await admin_client.post("/admin/sources/own/deletion", data=confirmed)).status_code == 303
    for reference in ("SOURCE_PASS", "file:../source_word", f"file:{tmp_path}/source_link"):
        assert "secret of another server" in await told(reference, 2), reference
        assert "could not be reached" in await told(reference, 1), reference
    assert "could not be reached" in await told("SOURCE_NEW", 2)
    settings.catalog_file.write_text(written.replace("127.0.0.1:1", "127.0.0.1:2"), encoding="utf-8")
    assert "could not be reached" in await told("SOURCE_PASS", 2)


async def test_a_source_that_no_dataset_reads_is_deleted(
    admin_client: httpx.AsyncClient, resources: Resources, settings: Settings, shop: Path
) -> None:
    await connect(admin_client, shop)
    before = settings.catalog_file.read_text(encoding="utf-8")
    await connect(admin_client, shop, name="spare")
    asked = await admin_client.post("/admin/sources/spare/deletion")
    assert (asked.status_code, "spare" in resources.catalog.sources) == (200, True)
    confirmed = {"confirmed": "1", "seen": node(asked, "main input[name=seen]").attributes["value"] or ""}
    await write(admin_client)
    stale = await admin_client.post("/admin/sources/spare/deletion", data=confirmed)
    assert "changed by somebody else meanwhile" in text(stale, "#summary")
    confirmed["seen"] = await seen(admin_client)
    used = await admin_client.post("/admin/sources/own/deletion", data=confirmed)
    assert (used.status_code, texts(used, "#summary p")[0]) == (422, "Datasets read it: Stock.")
    assert nodes(await admin_client.get("/admin/sources/own/edit"), "button.danger:not(#confirm-yes)") == []
    assert (await admin_client.post("/admin/sources/spare/deletion", data=confirmed)).status_code == 303
    assert set(resources.catalog.sources) == {"shop", "own"}
    assert settings.catalog_file.read_text(encoding="utf-8").startswith(before.rstrip())
    log = (await admin_client.get("/admin/audit.csv")).text
    assert any("source.deleted" in line and "spare" in line for line in log.splitlines())


async def test_a_dataset_is_deleted_once_what_depends_on_it_was_shown(
    admin_client: httpx.AsyncClient, resources: Resources, settings: Settings, shop: Path, admin: Viewer
) -> None:
    await connect(admin_client, shop)
    before = settings.catalog_file.read_text(encoding="utf-8")
    await write(admin_client)
    await stored_export(resources, admin, Status.QUEUED, dataset="stock")
    done = await stored_export(resources, admin, Status.SUCCESS, dataset="stock")
    order = Order("stock", {"most": 3}, "csv", {}, zone="UTC")
    saved = await saved_orders.save(resources, admin, "Every day", order, defaults=API_DEFAULTS)
    await schedules.put(resources, admin, saved.id, cron="0 6 * * *", zone="UTC")
    path = "/admin/datasets/stock/deletion"
    asked = await admin_client.post(path)
    told = " ".join(texts(asked, ".narrow p"))
    assert "1 export of it has not ended" in told
    assert "1 saved order of it can be ordered no more. 1 schedule stops." in told
    confirmed = {"confirmed": "1", "seen": node(asked, "main input[name=seen]").attributes["value"] or ""}
    stale = await admin_client.post(path, data={**confirmed, "seen": "another"})
    assert (stale.status_code, "changed by somebody else meanwhile" in text(stale, "#summary")) == (422, True)
    assert (await admin_client.post(path, data=confirmed)).headers["location"] == "/admin/datasets"
    assert "stock" not in resources.catalog.datasets
    assert settings.catalog_file.read_text(encoding="utf-8").strip() == before.strip()
    assert (await admin_client.get(f"/api/v1/exports/{done.id}")).json()["file"] is not None
    assert (await admin_client.get("/saved-orders")).status_code == 200
    assert (await admin_client.post(path, data=confirmed)).status_code == 404
    log = (await admin_client.get("/admin/audit.csv")).text
    assert any("dataset.deleted" in line and "stock" in line for line in log.splitlines())


def test_a_dataset_goes_with_its_parameters_and_nothing_else() -> None:
    one = '# one\n[datasets.a]\ntitle = "A"\nsql = """\nSELECT\n[x]\n"""\n'
    parameters = '\n[datasets.a.parameters.p]\ntype = "choice"\nchoices = [\n  "x",\n]\n'
    other = '\n# two\n[datasets.ab]\ntitle = "AB"\nsql = """\n[datasets.a]\n"""\n'
    plain = one.replace("[x]", "x")
    assert without_dataset(plain + other + parameters, "a") == "# one\n" + other + "\n"
    assert "datasets.ab" in without_dataset(one + other + parameters, "a"), "an editor's way, comments may move"
    with pytest.raises(KeyError):
        without_dataset(other, "a")


REST = '[sources.b]\nurl = "y"\n\n[datasets.c]\nsql = """\n[sources.a]\n"""\n'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            '# top\n[sources.a] # old\nurl = "x"\nmax_running = 2\n\n# the other\n' + REST,
            "# top\n\n# the other\n" + REST,
        ),
        (REST + '\n[sources.a]\nurl = "x"\n', REST + "\n"),
        ('[sources."a"]\nurl = "x"\n' + REST, REST),
        ('[sources]\na = {url = "x"} # old\nb = {url = "y"} # new\n', '[sources]\nb = {url = "y"} # new\n'),
        ('sources.a.url = "x"\nsources.b.url = "y"\n', 'sources.b.url = "y"\n'),
    ],
)
def test_a_table_is_taken_out_of_the_text_and_nothing_else(text: str, left: str) -> None:
    assert without_source(text, "a") == left


async def test_the_card_knows_what_is_done(
    admin_client: httpx.AsyncClient, resources: Resources, shop: Path, admin: Viewer
) -> None:
    async def open_steps() -> list[str]:
        return texts(await admin_client.get("/exports"), ".started-steps a")

    everything = ["Try the demo", "Connect a source", "Write a dataset", "Grant it", "Register a callback"]
    assert await open_steps() == everything
    await stored_export(resources, admin, Status.SUCCESS)
    assert await open_steps() == everything[1:]
    await connect(admin_client, shop)
    assert await open_steps() == everything[2:]
    await write(admin_client)
    assert await open_steps() == everything[3:]
    await groups.grant(resources, "stock", await groups.create(resources, "readers", actor="tests"), actor="tests")
    assert await open_steps() == everything[4:]
    await register(resources, "https://93.184.216.34/in")
    assert nodes(await admin_client.get("/exports"), ".getting-started") == []


async def test_the_card_is_for_admins_until_each_sends_it_away(
    admin_client: httpx.AsyncClient, client: httpx.AsyncClient
) -> None:
    assert nodes(await client.get("/exports"), ".getting-started") == []
    assert nodes(await admin_client.get("/exports"), ".getting-started") != []
    assert (await admin_client.post("/getting-started/dismissal")).status_code == 303
    assert nodes(await admin_client.get("/exports"), ".getting-started") == []
