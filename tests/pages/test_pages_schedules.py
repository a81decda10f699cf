"""The schedule of a saved order: its form with the next dates, and what the list says of it. And by API."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest
from api.problem_documents import fields_of, problem_of
from pages.dom import node, nodes, text, texts

from webapp.actions import saved_orders, schedules
from webapp.actions.due_times import following
from webapp.actions.exports import Order
from webapp.domain.access import Viewer
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.schedules import StopReason
from webapp.pages.schedules import Rhythm, cron_of, rhythm_of
from webapp.resources import Resources
from webapp.store import schedules as rows

TOKYO = {"kind": "weekly", "clock": "08:30", "weekday": "5", "zone": "Asia/Tokyo"}


@pytest.fixture
async def saved_id(resources: Resources, user: Viewer) -> str:
    wanted = Order("things", {}, "csv", {}, zone="Asia/Tokyo")
    return (await saved_orders.save(resources, user, "Mine", wanted, defaults=API_DEFAULTS)).id


@pytest.mark.parametrize(
    ("rhythm", "cron"),
    [
        (Rhythm("daily", "08:05"), "5 8 * * *"),
        (Rhythm("weekly", "23:59", weekday="0"), "59 23 * * 0"),
        (Rhythm("monthly", "00:00", month_day="L"), "0 0 L * *"),
        (Rhythm("cron", cron="*/30 8-17 * * 1-5"), "*/30 8-17 * * 1-5"),
        (Rhythm("cron", cron="0 8 1 * 5"), "0 8 1 * 5"),
    ],
)
def test_the_form_and_its_cron_line_are_the_same(rhythm: Rhythm, cron: str) -> None:
    assert cron_of(rhythm) == cron
    assert replace(rhythm_of(cron, "UTC"), cron="") == replace(rhythm, cron="")


@pytest.mark.parametrize("clock", ["", "25:00", "8", "08:60", "x"])
def test_a_clock_that_is_none_is_no_cron_line(clock: str) -> None:
    assert cron_of(Rhythm(clock=clock)) == ""


async def test_the_next_dates_are_shown_before_it_is_saved(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, saved_id: str
) -> None:
    url = f"/saved-orders/{saved_id}/schedule"
    empty = await client.get(url)
    assert len(nodes(empty, "#dates li")) == 5
    assert node(empty, "#zone option[selected]").text() == "Asia/Tokyo"
    for headers in ({}, {"HX-Request": "true"}):
        shown = await client.post(url, data=TOKYO | {"show": "1"}, headers=headers)
        dates = [datetime.fromisoformat(found.attributes["datetime"] or "") for found in nodes(shown, "#dates time")]
        assert len(dates) == 5
        assert [(date.isoweekday(), f"{date:%H:%M %z}") for date in dates] == [(5, "08:30 +0900")] * 5
    assert await schedules.of_own(resources, user) == {}
    assert (await client.post(url, data=TOKYO)).headers["location"] == "/saved-orders"
    kept = (await schedules.of_own(resources, user))[saved_id]
    assert (kept.cron, kept.zone, kept.next_at) == ("30 8 * * 5", "Asia/Tokyo", dates[0].astimezone(UTC))
    again = await client.get(url)
    assert node(again, "input[name=kind][checked]").attributes["value"] == "weekly"
    assert node(again, "#clock").attributes["value"] == "08:30"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"kind": "cron", "cron": "* * * * *"}, "Must not be due more often than every 15 minutes."),
        ({"kind": "cron", "cron": "nonsense"}, "Must be a cron line of five fields, such as 30 8 * * 1."),
        ({"kind": "cron", "cron": "0 8 31 2 *"}, "Is never due."),
        ({"kind": "cron", "cron": "0 8 32 2 *"}, "Must be a cron line of five fields, such as 30 8 * * 1."),
        ({"kind": "daily", "clock": ""}, "Must be a cron line of five fields, such as 30 8 * * 1."),
        ({"kind": "daily", "zone": "Mars"}, "Must be a time zone's name, such as Europe/Berlin."),
    ],
)
async def test_a_mistake_is_said(client: httpx.AsyncClient, saved_id: str, form: dict[str, str], message: str) -> None:
    refused = await client.post(f"/saved-orders/{saved_id}/schedule", data=form)
    assert (refused.status_code, text(refused, "#dates .error")) == (422, message)
    assert node(refused, "#summary[tabindex]").text() == message, "where scripts lead the focus"


async def test_the_list_says_when_and_what_came_of_it(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, saved_id: str
) -> None:
    url = f"/saved-orders/{saved_id}/schedule"
    await client.post(url, data=TOKYO)
    assert "Next run" in texts(await client.get("/saved-orders"), ".saved-what p")[1]
    await client.post(f"{url}/pause")
    assert "Paused" in texts(await client.get("/saved-orders"), ".saved-what p")[1]
    await client.post(f"{url}/resumption")
    now = await resources.store.now()
    kept = await schedules.get(resources, user, saved_id)
    assert kept.next_at == following(kept.cron, kept.zone, now, 1)[0]
    async with resources.store.transaction():
        stopped = replace(kept, next_at=None, stopped_at=now, stop=StopReason.FAILURES)
        assert await rows.replace_if(resources.store, kept, stopped)
    assert text(await client.get("/saved-orders"), ".message.tone-bad").startswith("It has stopped after several")
    assert text(await client.get(url), ".message.tone-bad").startswith("It has stopped after several")
    await client.post(f"{url}/removal")
    assert await schedules.of_own(resources, user) == {}


async def test_by_api(client: httpx.AsyncClient, saved_id: str) -> None:
    url = f"/api/v1/saved-orders/{saved_id}/schedule"
    problem_of(await client.get(url), 404, "NOT_FOUND")
    assert fields_of(await client.put(url, json={"cron": 5, "zone": "x"})) == ["zone", "cron"]
    made = (await client.put(url, json={"cron": "30  8 * * 5", "zone": "Asia/Tokyo"})).json()
    assert (made["cron"], made["failures"], made["last_outcome"]) == ("30 8 * * 5", 0, None)
    assert [moment[10:] for moment in made["next"]] == ["T23:30:00.000Z"] * 5
    assert (await client.get(url)).json() == made
    paused = (await client.post(f"{url}/pause")).json()
    assert (paused["next"], paused["paused_at"] is None) == ([], False)
    assert len((await client.post(f"{url}/resumption")).json()["next"]) == 5
    assert (await client.delete(url)).status_code == 204
