"""Reading answers as a browser does: by nodes, not by substrings."""

from __future__ import annotations

import httpx
from selectolax.lexbor import LexborHTMLParser, LexborNode


def parsed(response: httpx.Response) -> LexborHTMLParser:
    return LexborHTMLParser(response.text)


def nodes(response: httpx.Response, selector: str) -> list[LexborNode]:
    return parsed(response).css(selector)


def node(response: httpx.Response, selector: str) -> LexborNode:
    """The one node that fits."""
    found = nodes(response, selector)
    assert len(found) == 1, f"{len(found)} nodes fit {selector}"
    return found[0]


def text(response: httpx.Response, selector: str) -> str:
    return plain(node(response, selector))


def texts(response: httpx.Response, selector: str) -> list[str]:
    return [plain(found) for found in nodes(response, selector)]


def plain(found: LexborNode) -> str:
    return " ".join(found.text().split())


def facts(response: httpx.Response, selector: str = "dl.facts") -> dict[str, str]:
    """Terms and what is said about them."""
    return {plain(row.css("dt")[0]): plain(row.css("dd")[0]) for row in nodes(response, f"{selector} > div")}
