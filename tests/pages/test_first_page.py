"""What a new visitor's browser is sent for a page and all that it names, compressed as the web process does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import pytest
from factories import stored_export
from needed import missing
from pages.dom import nodes

from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.web.render import static_folder

ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]
MOST_BYTES = 120_000
ON_A_PAGE = 50
LINKS = (("link[href]", "href"), ("script[src]", "src"), ("img[src]", "src"), ("use[href]", "href"))


async def transferred(client: httpx.AsyncClient, path: str) -> dict[str, int]:
    """Bytes of each answer, headers too, by its address; what a browser has not asked for yet is in no cache."""
    page = await client.get(path)
    assert page.status_code == 200
    named = {node.attributes[name] or "" for selector, name in LINKS for node in nodes(page, selector)}
    wanted = {link.partition("#")[0] for link in named} - {""}
    assert any("app.css" in link for link in wanted)
    assert all(link.startswith("/") for link in wanted), "nothing comes from elsewhere"
    answers = {path: page} | {link: await client.get(link) for link in sorted(wanted)}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {link: answer.num_bytes_downloaded + head_bytes(answer) for link, answer in answers.items()}


def head_bytes(answer: httpx.Response) -> int:
    return sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)


@pytest.mark.parametrize("language", ["en", "zh-CN"])
async def test_a_first_page_is_small(
    make_client: ClientMaker, resources: Resources, admin: Viewer, language: str
) -> None:
    if not (static_folder() / "vendor" / "htmx.min.js").stat().st_size:
        missing("htmx (an editable install brings it)")
    exports = [await stored_export(resources, admin, list(Status)[n % len(Status)]) for n in range(ON_A_PAGE)]
    for viewer, path in ((None, "/sign-in"), (admin, "/exports"), (admin, f"/exports/{exports[0].id}")):
        client = await make_client(viewer)
        client.headers["Accept-Language"] = language
        sizes = await transferred(client, path)
        told = "\n".join(f"{size:7} {link}" for link, size in sizes.items())
        assert sum(sizes.values()) <= MOST_BYTES, f"{sum(sizes.values())} bytes\n{told}"


@pytest.mark.parametrize(
    ("path", "accepted", "encoding"),
    [
        ("/sign-in", "gzip, br", "gzip"),
        ("/sign-in", "identity", None),
        ("/static/app.css", "gzip", "gzip"),
        ("/static/live.js", "gzip", "gzip"),
        ("/static/icons.svg", "gzip", "gzip"),
        ("/api/v1/openapi.json", "gzip", None),
    ],
)
async def test_text_is_compressed_for_whoever_takes_it(
    client: httpx.AsyncClient, path: str, accepted: str, encoding: str | None
) -> None:
    answer = await client.get(path, headers={"Accept-Encoding": accepted}, follow_redirects=True)
    assert answer.headers.get("content-encoding") == encoding
    plain = await client.get(path, headers={"Accept-Encoding": "identity"}, follow_redirects=True)
    assert len(answer.content) == len(plain.content)
    if encoding:
        assert "Accept-Encoding" in answer.headers["vary"]
