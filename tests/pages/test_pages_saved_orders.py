"""Saving an order from its form or from an export, and the list of what was saved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import httpx
import pytest
from actions.test_saved_orders import DAYS
from pages.dom import node, nodes, plain, text, texts

from webapp.actions import saved_orders
from webapp.datasets.relative import resolve_date
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.saved_orders import SavedOrder
from webapp.resources import Resources
from webapp.settings import Settings

ExportMaker = Callable[..., Awaitable[Export]]
THINGS = {"dataset": "things", "format": "csv", "p.search": "東京", "o.shown": "1"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    assert settings.config is not None
    settings.config.write_text(settings.config.read_text(encoding="utf-8") + DAYS, encoding="utf-8")
    return settings


def sent_by(response: httpx.Response, **changes: str) -> dict[str, str]:
    """What a browser sends when the form of the page is submitted as it is, with changes."""
    fields = {f.attributes["name"] or "": f.attributes["value"] or "" for f in nodes(response, "main form input[name]")}
    for select in nodes(response, "main form select"):
        chosen = select.css("option[selected]") or select.css("option")[:1]
        fields[select.attributes["name"] or ""] = chosen[0].attributes["value"] or ""
    return fields | changes


async def only(resources: Resources, viewer: Viewer) -> SavedOrder:
    [saved] = await saved_orders.list_own(resources, viewer)
    return saved


async def save(client: httpx.AsyncClient, form: dict[str, str], **changes: str) -> httpx.Response:
    asked = await client.post("/saved-orders/new", data=form)
    assert asked.status_code == 200, asked.text
    action = node(asked, "main form").attributes["action"] or ""
    return await client.post(action, data=sent_by(asked, **changes))


async def test_a_form_is_saved_and_ordered(client: httpx.AsyncClient, resources: Resources, user: Viewer) -> None:
    saved = await save(client, THINGS, name="Tokyo")
    assert (saved.status_code, saved.headers["location"]) == (303, "/saved-orders")
    kept = await only(resources, user)
    assert (kept.name, kept.params, kept.options["bom"]) == ("Tokyo", {"search": "東京"}, False)
    shown = await client.get("/saved-orders")
    assert text(shown, ".saved-orders h2") == "Tokyo CSV"
    assert texts(shown, ".saved-what p") == ["Things · Name contains: 東京"]
    ordered = await client.post(f"/saved-orders/{kept.id}/exports")
    assert ordered.headers["location"].startswith("/exports/exp_")
    export = await client.get(ordered.headers["location"])
    assert text(export, "h1") == "Tokyo CSV"
    last = node(await client.get("/saved-orders"), ".saved-what p a")
    assert last.attributes["href"] == ordered.headers["location"]


async def test_days_that_move_are_offered_and_the_likely_ones_chosen(
    client: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    """The date that the default of 30 days ago comes to is taken for that default."""
    today = (await resources.store.now()).date()
    form = {"dataset": "days", "format": "csv", "zone": "UTC", "p.until": "2026-01-31"}
    asked = await client.post("/saved-orders/new", data=form | {"p.since": str(today - timedelta(days=30))})
    assert sent_by(asked)["m.since"] == "today - 30d"
    assert sent_by(asked)["m.until"] == ""
    assert text(asked, "#moving-until option[value='']") == "Always 2026-01-31"
    last = resolve_date("end of last month", today)
    assert text(asked, "#moving-until option[value='end of last month']") == f"End of last month (now {last})"
    await save(client, form, **{"m.since": "start of last month", "m.until": "end of last month"})
    kept = await only(resources, user)
    assert kept.params == {"since": "start of last month", "until": "end of last month"}
    first = resolve_date("start of last month", today)
    told = texts(await client.get("/saved-orders"), ".saved-what p")
    assert told == [f"Days · Since: Start of last month ({first}) · Until: End of last month ({last})"]
    form_again = await client.get(f"/exports/new?saved={kept.id}")
    assert node(form_again, "#param-since").attributes["value"] == str(first)


async def test_an_export_is_saved_and_its_form_changed(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    export = await make_export(Status.SUCCESS, params={"search": "x", "most": 5}, name="Mine")
    page = await client.get(f"/exports/{export.id}")
    link = next(link for link in nodes(page, ".actions a") if plain(link) == "Save this order")
    asked = await client.get(link.attributes["href"] or "")
    assert sent_by(asked)["name"] == "Mine"
    assert (await client.post("/saved-orders", data=sent_by(asked))).status_code == 303
    kept = await only(resources, user)
    assert kept.params == {"search": "x", "most": 5}
    form = await client.get(f"/exports/new?saved={kept.id}")
    assert node(form, "#param-search").attributes["value"] == "x"
    changed = THINGS | {"saved": node(form, "input[name=saved]").attributes["value"] or ""}
    assert (await save(client, changed, name="Yours")).status_code == 303
    after = await only(resources, user)
    assert (after.id, after.name, after.params) == (kept.id, "Yours", {"search": "東京"})


async def test_a_form_with_mistakes_comes_back(client: httpx.AsyncClient) -> None:
    wrong = await client.post("/saved-orders/new", data=THINGS | {"p.most": "many"})
    assert wrong.status_code == 422
    assert text(wrong, "#param-most-error") == "At most must be a whole number."
    assert node(wrong, "#param-search").attributes["value"] == "東京"


async def test_a_name_that_is_taken_is_said_at_its_field(
    client: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    await save(client, THINGS, name="One")
    taken = await save(client, THINGS, name="One")
    assert (taken.status_code, text(taken, "#name-error")) == (422, saved_orders.NAME_TAKEN)
    await save(client, THINGS, name="Two")
    two = (await saved_orders.list_own(resources, user))[1]
    refused = await client.post(f"/saved-orders/{two.id}/name", data={"name": "One"})
    assert (refused.status_code, text(refused, f"#error-{two.id}")) == (422, saved_orders.NAME_TAKEN)
    assert (await client.post(f"/saved-orders/{two.id}/name", data={"name": "Three"})).status_code == 303
    assert texts(await client.get("/saved-orders"), ".saved-orders h2") == ["One CSV", "Three CSV"]


async def test_a_deletion_is_taken_back(client: httpx.AsyncClient, resources: Resources, user: Viewer) -> None:
    await save(client, THINGS, name="One")
    kept = await only(resources, user)
    gone = await client.post(f"/saved-orders/{kept.id}/deletion")
    shown = await client.get(gone.headers["location"])
    assert text(shown, ".undo span") == "“One” was deleted."
    assert nodes(shown, ".saved-orders") == []
    assert (await client.post(node(shown, ".undo").attributes["action"] or "")).status_code == 303
    assert (await only(resources, user)).id == kept.id


async def test_what_no_longer_fits_leads_to_its_form(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, settings: Settings
) -> None:
    await save(client, THINGS | {"p.most": "900"}, name="One")
    kept = await only(resources, user)
    assert settings.config is not None
    config = settings.config.read_text(encoding="utf-8")
    settings.config.write_text(config.replace("maximum = 1000", "maximum = 500"), encoding="utf-8")
    assert resources.holder.refresh()
    led = await client.post(f"/saved-orders/{kept.id}/exports")
    assert led.headers["location"] == f"/exports/new?saved={kept.id}"
    assert text(await client.get(led.headers["location"]), ".flash").startswith("This order no longer fits")


async def test_without_its_dataset_it_says_so(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, settings: Settings
) -> None:
    await save(client, {"dataset": "days", "format": "csv"}, name="One")
    assert settings.config is not None
    config = settings.config.read_text(encoding="utf-8")
    settings.config.write_text(config.removesuffix(DAYS), encoding="utf-8")
    assert resources.holder.refresh()
    shown = await client.get("/saved-orders")
    assert text(shown, ".saved-orders .message").startswith("Its dataset is gone")
    assert nodes(shown, ".saved-orders form[action$='/exports']") == []
