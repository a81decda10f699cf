"""Where the secrets of sources go. What a reference stands for is sent to the server for which it was written, and to
no other that an admin names in a form."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from webapp.datasets.catalog import INSERT
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store import app_settings

REMEMBERED = "source_secrets"
"""References as they were written by whoever edits the file, or first by form: taking a source out frees none."""
LOCAL = "local"
KINDS = {"postgres": "postgresql", "mariadb": "mysql", "sqlite": LOCAL, "files": LOCAL}
PORTS = {"postgresql": ":5432", "mysql": ":3306"}

Places = Mapping[str, frozenset[str]]
"""Of each reference, those to which it may go."""


def references(url: str) -> list[str]:
    """`NAME` of `${NAME}`, and `file:PATH`."""
    return [match[1].strip() for match in INSERT.finditer(url)]


def place_of(url: str) -> str:
    """Kind, server and options of a URL as the file has it. What begins with a reference, or can be read in two ways,
    is a place of its own."""
    stands_for: dict[str, str] = {}

    def marked(found: Any) -> str:
        stands_for[mark := f"\0{len(stands_for)}\0"] = found[0]
        return mark

    scheme, _, rest = INSERT.sub(marked, url).partition("://")
    start, _, options = rest.partition("?")
    authority = start.partition("/")[0]
    kind = KINDS.get(scheme, scheme)
    if "\0" in scheme or authority.count("@") > 1:
        return url
    if kind == LOCAL and not authority:
        return LOCAL
    server = authority.rpartition("@")[2].lower().removesuffix(PORTS.get(kind, "\0"))
    place = f"{kind}://{server}?{options}"
    for mark, reference in stands_for.items():
        place = place.replace(mark, reference)
    return place


async def check(resources: Resources, text: str, url: str) -> None:
    """Whether a form may have this URL in the file that says `text`. Raises Invalid."""
    known, place = await _known(resources, text), place_of(url)
    for reference in references(url):
        if place not in known.get(_key(resources, reference), {place}):
            told = say(
                "{name} is the secret of another server, and is sent there alone. Write the name of this server’s own.",
                name=f"${{{reference}}}",
            )
            raise Invalid([FieldError("url", told)])


async def remember(resources: Resources, *texts: str) -> None:
    """What the file says, before a form changes it and after."""
    store = resources.store
    async with store.transaction():
        before = await _remembered(resources)
        after = _together(before, *(_in_file(resources, text) for text in texts))
        if after != before:
            value = {reference: sorted(places) for reference, places in after.items()}
            await app_settings.put(store, REMEMBERED, value, at=await store.now())


async def _known(resources: Resources, text: str) -> Places:
    async with resources.store.connection():
        return _together(await _remembered(resources), _in_file(resources, text))


async def _remembered(resources: Resources) -> Places:
    kept: Mapping[str, Sequence[str]] = await app_settings.get(resources.store, REMEMBERED) or {}
    return {reference: frozenset(places) for reference, places in kept.items()}


def _in_file(resources: Resources, text: str) -> Places:
    """Nothing of a file that cannot be read: nobody saves it."""
    found: dict[str, set[str]] = {}
    for url in urls_in(text):
        for reference in references(url):
            found.setdefault(_key(resources, reference), set()).add(place_of(url))
    return {reference: frozenset(places) for reference, places in found.items()}


def urls_in(text: str) -> list[str]:
    """Of all sources, as the file has them; none where they are not to be read."""
    try:
        tables: Any = tomllib.loads(text).get("sources", {})
        return [str(table["url"]) for table in tables.values()]
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError):
        return []


def _together(*known: Places) -> Places:
    return {
        reference: frozenset[str]().union(*(places.get(reference, ()) for places in known))
        for reference in sorted(frozenset[str]().union(*known))
    }


def _key(resources: Resources, reference: str) -> str:
    """One of each file, however its path is written."""
    if not reference.startswith("file:"):
        return reference
    folder = Path(resources.settings.catalog_file).parent
    return f"file:{(folder / reference.removeprefix('file:')).resolve()}"
