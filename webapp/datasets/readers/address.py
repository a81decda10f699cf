"""URLs of database servers: what a catalog may say. No message quotes any of it."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import SplitResult, parse_qsl, urlsplit

from webapp.datasets.reading import BadUrl

ENCODE = "write special characters of a user name or a password in the form %23"


def checked_address(url: str, *, example: str, arguments: Collection[str]) -> SplitResult:
    """The parts of `scheme://user:password@host:port/database?argument=value`. Raises BadUrl."""
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        port = None if "," in parts.netloc else parts.port
    except ValueError:
        raise BadUrl(f"url cannot be read; it must be like {example} ({ENCODE}).") from None
    if parts.fragment or "#" in url:
        raise BadUrl(f"url has a # in it; {ENCODE}.")
    if not parts.hostname or port == 0:
        raise BadUrl(f"url names no host; it must be like {example} ({ENCODE}).")
    if not parts.path.strip("/") or "/" in parts.path.strip("/"):
        raise BadUrl(f"url names no database; it must be like {example} ({ENCODE}).")
    if any(name not in arguments for name, _ in given):
        raise BadUrl(f"url has an argument after ? that is not known here; there are: {', '.join(sorted(arguments))}.")
    return parts
