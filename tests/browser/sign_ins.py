"""Browsers in which somebody is signed in."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Browser, BrowserContext

from webapp.actions import people
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.web.security import SESSION_COOKIE


async def signed_in(browser: Browser, server: Any, resources: Resources, who: Viewer, **options: Any) -> BrowserContext:
    """`options` are those of a Playwright context."""
    session = await people.sign_in(resources, who.name, f"{who.name} has a password")
    assert session is not None
    opened = await browser.new_context(base_url=server.url, **options)
    await opened.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
    return opened
