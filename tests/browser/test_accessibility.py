"""axe-core finds nothing: on every page, in every status of what it shows, in both themes, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from callback_rows import attempt, owe, put
from factories import changed, stored_export
from needed import missing
from owing import register
from playwright.async_api import Browser, Page
from starlette.routing import Route

from webapp.actions import groups, inspectors, people, saved_orders, shares
from webapp.actions.exports import Order
from webapp.domain.access import Role, Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Phase, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.routes import pages
from webapp.store import emails
from webapp.store import people as user_rows
from webapp.web.security import SESSION_COOKIE

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
RUN = """async () => {
  const told = ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")}`;
  return (await axe.run(document, { resultTypes: ["violations"] })).violations.map(told);
}"""
SUBMIT = """([action, fields]) => {
  const form = Object.assign(document.createElement("form"), { method: "post", action });
  for (const [name, value] of Object.entries(fields))
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  document.body.append(form);
  form.submit();
}"""
NO_PAGES = {
    "/sign-in/once/{token}",
    "/sign-in/openid",
    "/sign-in/openid/callback",
    "/exports/new/choices",
    "/exports/new/preview",
    "/notices/stream",
    "/exports/{export_id}/deliveries",
    "/exports/{export_id}/shares/people",
    "/callbacks/sample",
    "/callbacks/{endpoint_id}/secret",
    "/callbacks/{endpoint_id}/deliveries",
}
"""What answers to GET with something else, or leads to another page."""
CONFIRMING = "confirming"

Paths = Mapping[str, list[str]]


@pytest.fixture
async def paths(resources: Resources, admin: Viewer) -> Paths:
    """For each page of the URL table the addresses to look at, with something of every status behind them."""
    exports = [await stored_export(resources, admin, status) for status in Status]
    exports += [
        await stored_export(resources, admin, Status.SUCCESS, aged_out=True),
        await changed(
            resources, await stored_export(resources, admin, Status.QUEUED), attempt=2,
            retry_at=await resources.store.now() + timedelta(hours=1), error=export_error(ErrorCode.SOURCE_UNREACHABLE),
        ),
        await stored_export(
            resources, admin, Status.PROCESSING, name="Of March", note="For the books.", rows_done=250, rows_total=1000,
            phase=Phase.READING,
        ),
    ]  # fmt: skip
    done = next(export for export in exports if export.status is Status.SUCCESS)
    now = await resources.store.now()
    colleague = await people.add_user(resources, "colleague", Role.USER, actor="tests")
    await shares.put(resources, admin, done.id, colleague.name, "The figures you asked for.")
    theirs = await stored_export(resources, Viewer(colleague.id, colleague.name, Role.USER), Status.SUCCESS)
    await shares.put(resources, admin, theirs.id, admin.name, "Look at the last sheet.")
    usual = await register(resources, "https://93.184.216.34/usual", description="The usual one")
    paused = await register(resources, "https://93.184.216.34/paused", paused_at=now)
    disabled = await register(
        resources, "https://93.184.216.34/off", disabled_at=now, disabled_reason="gone", failures_in_row=3
    )
    succeeded, failing, dead, *_ = await owe(resources, usual.id, done)
    await attempt(resources, succeeded, now)
    await put(resources, succeeded, state="succeeded", completed_at=now, attempts=1, last_status=200)
    await attempt(resources, failing, now, error="HTTP_5XX")
    await put(resources, failing, attempts=1, failures=1, last_status=500, last_error="HTTP_5XX")
    await put(resources, dead, state="dead", completed_at=now, attempts=9, failures=9, last_error="TIMEOUT")
    inspector = await inspectors.create(resources, admin)
    group = await groups.create(resources, "Readers", actor="tests")
    await groups.grant(resources, "things", group, actor="tests")
    order = Order("things", {}, "csv", {}, zone="Asia/Tokyo")
    saved = await saved_orders.save(resources, admin, "Every month", order, defaults=API_DEFAULTS)
    await user_rows.insert_token(
        resources.store, kind=emails.KIND, name="admin@example.org", token=CONFIRMING, user_id=admin.id,
        created_at=now, expires_at=now + timedelta(days=1),
    )  # fmt: skip
    endpoints = [endpoint.id for endpoint in (usual, paused, disabled)]
    deliveries = [delivery.id for delivery in (succeeded, failing, dead)]
    return {
        "/sign-in": ["/sign-in"],
        "/account": ["/account"],
        "/account/email/{token}": ["/account/email/unknown", f"/account/email/{CONFIRMING}"],
        "/admin/audit": ["/admin/audit"],
        "/admin/datasets": ["/admin/datasets"],
        "/admin/datasets/{name}": ["/admin/datasets/things"],
        "/admin/groups": ["/admin/groups"],
        "/admin/groups/{group_id}": [f"/admin/groups/{group.id}"],
        "/admin/tokens": ["/admin/tokens"],
        "/admin/users": ["/admin/users"],
        "/admin/users/{user_id}": [f"/admin/users/{admin.id}"],
        "/docs": ["/docs", "/no-such-page"],
        "/docs/api": ["/docs/api"],
        "/exports": ["/exports", "/exports?status=FAILED", "/exports?q=nothing-like-it", "/exports?shared=1"],
        "/exports/new": ["/exports/new", "/exports/new?dataset=things"],
        "/exports/new/columns": ["/exports/new/columns?dataset=things&o.columns=price&o.columns=gone"],
        "/exports/{export_id}": [f"/exports/{export.id}" for export in (*exports, theirs)],
        "/saved-orders": ["/saved-orders"],
        "/saved-orders/new": ["/saved-orders/new?dataset=things"],
        "/admin/sources": ["/admin/sources"],
        "/admin/sources/new": ["/admin/sources/new"],
        "/admin/sources/{source}/edit": ["/admin/sources/shop/edit"],
        "/admin/datasets/new": ["/admin/datasets/new"],
        "/admin/datasets/{name}/edit": ["/admin/datasets/things/edit"],
        "/saved-orders/{saved_order_id}/schedule": [f"/saved-orders/{saved.id}/schedule"],
        "/inspect": ["/inspect"],
        "/inspect/{token}": [f"/inspect/{inspector.token}"],
        "/inspect/{token}/settings": [f"/inspect/{inspector.token}/settings"],
        "/callbacks": ["/callbacks"],
        "/callbacks/new": ["/callbacks/new"],
        "/callbacks/deliveries": ["/callbacks/deliveries"],
        "/callbacks/deliveries/{delivery_id}": [f"/callbacks/deliveries/{id}" for id in deliveries],
        "/callbacks/{endpoint_id}": [f"/callbacks/{id}" for id in endpoints],
        "/callbacks/{endpoint_id}/edit": [f"/callbacks/{usual.id}/edit"],
        "/callbacks/{endpoint_id}/recovery": [f"/callbacks/{usual.id}/recovery"],
        "/monitor": ["/monitor", "/monitor?range=30d"],
        "/monitor/counted": [
            f"/monitor/counted?of=requests&from={now:%Y-%m-%d}T00:00:00Z&until={now:%Y-%m-%d}T23:59:59Z"
        ],
    }


def shown() -> set[str]:
    """The pages of the URL table, without files, the answers to polls and the streams."""
    found = {route.path for route in pages() if isinstance(route, Route) and "GET" in (route.methods or ())}
    return {path for path in found if not path.endswith(("/live", "/stream")) and "." not in path} - NO_PAGES


async def violations(page: Page, paths: Paths) -> list[str]:
    found: list[str] = []
    for path in [address for addresses in paths.values() for address in addresses]:
        await page.goto(path)
        await page.add_script_tag(path=AXE)
        found += [f"{path}: {violation}" for violation in await page.evaluate(RUN)]
    return found


@pytest.mark.parametrize(
    ("scheme", "width"), [pytest.param("light", 1280, id="light, desk"), pytest.param("dark", 390, id="dark, phone")]
)
async def test_axe_finds_nothing(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, paths: Paths, scheme: Any, width: int
) -> None:
    if not AXE.is_file():
        missing("axe-core (an editable install brings it)")
    assert paths.keys() == shown(), "every page is looked at"
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    context = await browser.new_context(
        base_url=server.url, bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
    found = await violations(await context.new_page(), paths)
    await context.close()
    assert found == [], "\n".join(found)


async def test_what_is_chosen_and_how_far_it_is_are_seen_in_forced_colors(
    browser: Browser, server: Any, resources: Resources, admin: Viewer
) -> None:
    await stored_export(resources, admin, Status.PROCESSING, rows_done=250, rows_total=1000, phase=Phase.READING)
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    context = await browser.new_context(base_url=server.url, forced_colors="active")
    await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
    page = await context.new_page()
    await page.goto("/exports")
    for chosen, other in (
        (".chips a[aria-current]", ".chips a:not([aria-current])"),
        (".top-nav a[aria-current]", ".top-nav a:not([aria-current])"),
    ):
        assert await colour(page, chosen) != await colour(page, other), chosen
    bar = page.locator("progress")
    assert await bar.evaluate("(bar) => getComputedStyle(bar).forcedColorAdjust") == "none", (
        "or its filling is not seen"
    )
    await context.close()


async def colour(page: Page, selector: str) -> str:
    return await page.locator(selector).first.evaluate("(element) => getComputedStyle(element).backgroundColor")


async def test_nothing_is_beside_a_narrow_page(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, paths: Paths
) -> None:
    """320 pixels: a small phone, or 1280 at 400 %."""
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    context = await browser.new_context(base_url=server.url, viewport={"width": 320, "height": 900})
    await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
    page, wide = await context.new_page(), list[str]()
    for path in [address for addresses in paths.values() for address in addresses]:
        await page.goto(path)
        if await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(path)
    await context.close()
    assert wide == []


@pytest.mark.parametrize(
    ("scheme", "width"), [pytest.param("light", 1280, id="light, desk"), pytest.param("dark", 390, id="dark, phone")]
)
async def test_axe_finds_nothing_where_a_form_leads(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, paths: Paths, scheme: Any, width: int
) -> None:
    """Pages that ask first, and forms with mistakes."""
    if not AXE.is_file():
        missing("axe-core (an editable install brings it)")
    export = await stored_export(resources, admin, Status.SUCCESS)
    asked = {
        "/exports/selection": {"action": "delete", "ids": export.id, "back": ""},
        "/exports/selection?all": {"matching": "delete", "back": ""},
        "/admin/sources/shop/deletion": {},
        "/admin/datasets/things/deletion": {},
        f"{paths['/admin/users/{user_id}'][0]}/deletion": {},
        f"{paths['/admin/groups/{group_id}'][0]}/deletion": {},
        f"{paths['/callbacks/{endpoint_id}'][0]}/deletion": {},
        "/monitor/queues/exports/pause": {},
        "/exports": {"dataset": "things", "format": "csv", "p.most": "many"},
        "/admin/sources": {"kind": "sqlite", "name": "Bad", "url": "/nowhere.db"},
        "/admin/datasets/new": {"sql": "SELECT :since"},
        "/callbacks": {"url": "nowhere"},
    }
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    context = await browser.new_context(
        base_url=server.url, bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
    page, found = await context.new_page(), list[str]()
    for path, form in asked.items():
        await page.goto("/sign-in")
        async with page.expect_navigation():
            await page.evaluate(SUBMIT, [path, form])
        assert await page.locator("h1").count() == 1, path
        await page.add_script_tag(path=AXE)
        found += [f"{path}: {violation}" for violation in await page.evaluate(RUN)]
    await context.close()
    assert found == [], "\n".join(found)
