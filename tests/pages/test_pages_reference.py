"""The reference of the API: every call and shape of the document, and every link leads somewhere."""

from __future__ import annotations

import httpx
from pages.dom import nodes, texts

from webapp.api.openapi import openapi
from webapp.settings import Settings


async def test_every_call_callback_and_shape_is_on_it(anonymous: httpx.AsyncClient, settings: Settings) -> None:
    document = openapi(settings.base_url).content
    response = await anonymous.get("/docs/api")
    calls = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert set(texts(response, ".call summary > code:first-child")) == calls | {
        f"POST {event}" for event in document["webhooks"]
    }
    assert set(texts(response, "#shapes h3")) == set(document["components"]["schemas"])


async def test_what_is_linked_on_it_is_there(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/docs/api")
    ids = [node.attributes["id"] for node in nodes(response, "[id]")]
    assert len(ids) == len(set(ids))
    linked = {str(link.attributes["href"]) for link in nodes(response, ".docs a[href^='#']")}
    assert linked <= {f"#{each}" for each in ids}


async def test_it_says_what_a_parameter_may_be(anonymous: httpx.AsyncClient) -> None:
    rows = texts(await anonymous.get("/docs/api"), "#listExports tbody tr")
    assert any(row.startswith("limit query") and "integer, from 1, to 200, default 25" in row for row in rows)
