"""Sharing on an export's page, and what a colleague sees there and in the list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import pytest
from pages.dom import node, nodes, text, texts

from webapp.actions import shares
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]


@pytest.fixture
async def shared(client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer) -> Export:
    export = await make_export(Status.SUCCESS, name="Figures", note="For all who ask")
    form = {"person": other.name, "note": "as <promised>"}
    answer = await client.post(f"/exports/{export.id}/shares", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/exports/{export.id}#shares")
    return export


async def test_the_owner_shares_and_withdraws_without_scripts(
    client: httpx.AsyncClient, shared: Export, other: Viewer
) -> None:
    at = f"/exports/{shared.id}"
    shown = await client.get(at)
    assert text(shown, ".flash") == "Shared with other, who is told of it."
    assert texts(shown, "#shares .row-title") == ["other"]
    assert "not looked at yet" in text(shown, "#shares .row-params:not(.share-note)")
    assert text(shown, "#shares .share-note") == "as <promised>"
    assert node(shown, "#share-person").attributes["type"] == "text"
    button = node(shown, f'#shares form[action="{at}/shares/withdrawal"] button')
    assert (button.attributes["name"], button.attributes["value"]) == ("person", other.name)
    for _ in range(2):
        gone = await client.post(f"{at}/shares/withdrawal", data={"person": other.name})
        assert (gone.status_code, gone.headers["location"]) == (303, f"{at}#shares")
    assert texts(await client.get(at), "#shares .row-title") == []


async def test_a_mistake_comes_back_with_what_was_sent(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS)
    refused = await client.post(f"/exports/{export.id}/shares", data={"person": "nobody", "note": "kept"})
    assert refused.status_code == 422
    field = node(refused, "#share-person")
    assert (field.attributes["value"], field.attributes["aria-invalid"]) == ("nobody", "true")
    problem = text(refused, f"#{field.attributes['aria-describedby']}")
    assert problem == "There is nobody of this name who may order this dataset."
    assert node(refused, "#share-note").text() == "kept"
    assert "open" in node(refused, "#shares details").attributes


async def test_people_are_found_by_a_part_of_their_name(
    client: httpx.AsyncClient, make_export: ExportMaker, shared: Export, other: Viewer, admin: Viewer
) -> None:
    fresh = await make_export(Status.SUCCESS)
    found = await client.get(f"/exports/{fresh.id}/shares/people?person=TH")
    assert [option.attributes["value"] for option in nodes(found, "option")] == [other.name]
    everybody = await client.get(f"/exports/{shared.id}/shares/people")
    assert [option.attributes["value"] for option in nodes(everybody, "option")] == [admin.name]


@pytest.mark.parametrize("status", [Status.PROCESSING, Status.FAILED])
async def test_what_has_no_file_is_not_shared(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer, status: Status
) -> None:
    export = await make_export(status)
    assert nodes(await client.get(f"/exports/{export.id}"), "#shares") == []
    answer = await client.post(f"/exports/{export.id}/shares", data={"person": other.name})
    assert answer.headers["location"] == f"/exports/{export.id}"
    shown = await client.get(f"/exports/{export.id}")
    assert text(shown, ".flash") == "Only a finished file can be shared, and only while it is there."


async def test_a_colleague_looks_and_downloads_and_no_more(other_client: httpx.AsyncClient, shared: Export) -> None:
    at = f"/exports/{shared.id}"
    shown = await other_client.get(at)
    assert text(shown, "h1") == "Figures CSV"
    assert text(shown, ".export-note") == "For all who ask"
    assert "user shared this with you" in text(shown, ".received")
    assert text(shown, ".received-note") == "as <promised>"
    assert "Ordered" in text(shown, ".head p.quiet")
    assert "by user" in text(shown, ".head p.quiet")
    assert nodes(shown, f'a[href="/api/v1{at}/file"]')
    assert nodes(shown, f'a[href="/exports/new?from={shared.id}"]')
    forms = {form.attributes["action"] for form in nodes(shown, "main form")}
    assert forms == set(), "nothing to change"
    for part in ("#shares", ".attempts", "#deliveries", ".annotation", ".delete"):
        assert nodes(shown, part) == [], part
    assert (await other_client.get(f"/exports/new?from={shared.id}")).status_code == 200
    for path, form in (
        ("annotation", {"name": "mine"}), ("deletion", {}), ("cancellation", {}), ("retry", {}), ("reminder", {}),
        ("shares", {"person": "admin"}), ("shares/withdrawal", {"person": "other"}),
    ):  # fmt: skip
        assert (await other_client.post(f"{at}/{path}", data=form)).status_code == 404, path
    for path in ("deliveries", "shares/people"):
        assert (await other_client.get(f"{at}/{path}")).status_code == 404, path
    for path in ("live", "stream"):
        assert (await other_client.get(f"{at}/{path}")).status_code == 200, path


async def test_it_is_told_in_the_list_until_it_was_opened(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, shared: Export
) -> None:
    told = await other_client.get("/exports")
    assert text(told, ".received").startswith("user shared Figures with you. as <promised>")
    assert nodes(told, f'.received a[href="/exports/{shared.id}"]')
    assert text(told, ".empty h2") == "Order your first export"
    await other_client.get(f"/exports/{shared.id}/live")
    assert nodes(await other_client.get("/exports"), ".received"), "a poll is nobody's look"
    await other_client.get(f"/exports/{shared.id}")
    assert nodes(await other_client.get("/exports"), ".received") == []
    assert "looked at" in text(await client.get(f"/exports/{shared.id}"), "#shares .row-params:not(.share-note)")
    await other_client.get(f"/api/v1/exports/{shared.id}/file")
    shown = await client.get(f"/exports/{shared.id}")
    assert "downloaded 1 time, last" in text(shown, "#shares .row-params:not(.share-note)")


async def test_the_list_of_what_is_shared(
    client: httpx.AsyncClient,
    other_client: httpx.AsyncClient,
    admin_client: httpx.AsyncClient,
    make_export: ExportMaker,
    resources: Resources,
    shared: Export,
    user: Viewer,
) -> None:
    """By itself, without anything to select; bulk actions on it change nothing."""
    await make_export(Status.SUCCESS)
    shown = await other_client.get("/exports?shared=1")
    assert [row.attributes["data-export"] for row in nodes(shown, "tr[data-export]")] == [shared.id]
    assert "shared by user" in text(shown, ".row-params")
    assert text(shown, '.chip[aria-current="true"]') == "Shared with me"
    assert nodes(shown, ".tick, .selection, .matching") == []
    assert node(shown, 'input[name="shared"]').attributes["value"] == "1"
    assert text(await other_client.get("/exports?shared=1&q=nothing+so"), ".empty h2") == "Nothing matches"
    for form in ({"matching": "delete", "confirmed": "1", "before": "99999999999999-exp_" + "z" * 26},
                 {"action": "delete", "ids": shared.id, "confirmed": "1"}):  # fmt: skip
        await other_client.post("/exports/selection", data={**form, "back": "shared=1"})
    assert (await client.get(f"/exports/{shared.id}")).status_code == 200
    assert nodes(await client.get("/exports"), '.chip[href*="shared"]') == []
    await shares.put(resources, user, shared.id, "admin")
    shown = await admin_client.get("/exports?shared=1&all=1")
    assert [row.attributes["data-export"] for row in nodes(shown, "tr[data-export]")] == [shared.id]
    await shares.withdraw(resources, user, shared.id, "other")
    assert text(await other_client.get("/exports?shared=1"), ".empty h2") == "Nothing is shared with you"
