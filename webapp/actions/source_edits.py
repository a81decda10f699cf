"""Admins connect, change and take out sources by form. What does not answer is not written; no password is shown."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from webapp.actions import source_secrets
from webapp.actions.catalog_edits import (
    ENTANGLED,
    catalog_of,
    check_name,
    content,
    file_of,
    in_time,
    mistaken,
    reason_of,
    save,
)
from webapp.datasets import sources
from webapp.datasets.catalog import INSERT
from webapp.datasets.declaration import Catalog
from webapp.datasets.declaring import Entangled, with_changed_source, with_source, without_source
from webapp.datasets.readers.errors import one_line
from webapp.domain.access import NotFound
from webapp.domain.errors import AttemptFailed, ErrorCode, FieldError, Invalid
from webapp.domain.limits import PREVIEW_SECONDS
from webapp.domain.sentences import Text, say
from webapp.resources import Resources
from webapp.settings import PREFIX

REFERENCE = "reference"
UNREACHABLE = say("The data source could not be reached. Look at its address, and at what the names in it stand for.")
REFUSALS = {
    re.compile("password|access denied|role .* does not exist", re.IGNORECASE): say(
        "The data source could not be reached: it refused the user or the password."
    ),
    re.compile("unknown database|database .* does not exist", re.IGNORECASE): say(
        "The data source could not be reached: it has no database of this name."
    ),
    re.compile("connection refused", re.IGNORECASE): say(
        "The data source could not be reached: nothing listens at this host and port."
    ),
    re.compile("resolve host|translate host|name or service|name resolution", re.IGNORECASE): say(
        "The data source could not be reached: no host of this name is known."
    ),
    re.compile("timeout|timed out", re.IGNORECASE): say(
        "The data source could not be reached: it did not answer in time."
    ),
}
"""By what servers and drivers say; in words that quote nothing of it, since a secret may stand in it."""
HIDDEN = "***"
MARK = "\0"
PASSWORD = re.compile(
    r"(?P<start>://[^:/?#@]*:|[?&][^=&]*passw[^=&]*=)(?P<secret>(?<=:).*(?=@)|(?<==)[^&#]*)", re.IGNORECASE
)
"""Between the first colon and the last @, and in a query."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """`probe` reads what cannot be read of something that is no such source."""

    title: Text
    schemes: tuple[str, ...]
    prefix: str
    example: str
    probe: str = "SELECT 1 AS one"


KINDS: Mapping[str, SourceKind] = {
    "sqlite": SourceKind(
        say("SQLite file"), ("sqlite",), "sqlite:///", "/srv/shop.db", "SELECT count(*) AS tables FROM sqlite_master"
    ),
    "files": SourceKind(
        say("Files of Parquet, CSV or JSON, by DuckDB"), ("files",), "files:///", "/srv/trips/*.parquet",
        "SELECT * FROM files LIMIT 1",
    ),
    "postgresql": SourceKind(
        say("PostgreSQL"), ("postgresql", "postgres"), "postgresql://",
        "postgresql://reader:${SOURCE_SHOP_PASSWORD}@db.example.com:5432/shop",
    ),
    "mysql": SourceKind(
        say("MySQL or MariaDB"), ("mysql", "mariadb"), "mysql://",
        "mysql://reader:${file:/run/secrets/source_shop}@db.example.com:3306/shop",
    ),
}  # fmt: skip
WILD = re.compile(r"[*?\[]")
OWN_FILES = ("sqlite", "files")
OF_SOURCES = "source_"
"""How names of variables and files begin, in any case, that a form may put into a URL: what else the process knows is
not an admin's to send to a server of their choice."""


@dataclass(frozen=True, slots=True)
class GivenSource:
    kind: str
    name: str
    url: str

    @property
    def written_url(self) -> str:
        """As the file has it: a plain path is one of the kind's own URLs."""
        is_path = self.kind in OWN_FILES and "://" not in self.url and not self.url.startswith("${")
        return KINDS[self.kind].prefix + self.url if is_path else self.url


async def stored(resources: Resources, name: str) -> GivenSource:
    """As the file has it, but for passwords in clear. Raises NotFound, also for a kind that no form connects."""
    source = resources.catalog.sources.get(name)
    kind = kind_of(source.url) if source else None
    if source is None or kind is None:
        raise NotFound
    return GivenSource(kind, name, shown_url(_written((await content(resources)).text, name)))


def kind_of(url: str) -> str | None:
    """The form's kind of a URL; None for what only the file can connect."""
    scheme = url.partition(":")[0]
    return next((name for name, kind in KINDS.items() if scheme in kind.schemes), None)


def shown_url(url: str) -> str:
    """Without passwords in clear, which somebody wrote into the file by hand. Rather too much is left out than too
    little."""
    references = [match[0] for match in INSERT.finditer(url)]
    marked = re.sub(INSERT, lambda _: MARK, url)
    hidden = PASSWORD.sub(_hidden, marked)
    if hidden.count(MARK) != len(references):
        return PASSWORD.sub(_hidden, url)
    for reference in references:
        hidden = hidden.replace(MARK, reference, 1)
    return hidden


def _hidden(found: re.Match[str]) -> str:
    return found[0] if found["secret"] in ("", MARK) else found["start"] + HIDDEN


def users_of(catalog: Catalog, name: str) -> list[str]:
    """Titles of the datasets that read the source."""
    return [dataset.title for dataset in catalog.datasets.values() if dataset.source == name]


async def try_source(resources: Resources, given: GivenSource, *, changes: bool = False) -> str:
    """The text of the file with it, new or as it `changes`, once the source has answered. Raises Invalid, and never
    quotes a secret."""
    before = (await content(resources)).text
    if not changes:
        check_name(given.name, resources.catalog.sources, say("There is a source of this name already."))
    elif given.url == shown_url(_written(before, given.name)):
        catalog = await catalog_of(resources, before, field="url")
        url = catalog.sources[given.name].url
        _check_scheme(given, url)
        await _answered(given, url)
        return before
    _check_source(given, before)
    await source_secrets.check(resources, before, given.written_url)
    text = (with_changed_source if changes else with_source)(before, given.name, given.written_url)
    catalog = await catalog_of(resources, text, field="url")
    url = catalog.sources[given.name].url
    _check_place(resources, given, url)
    await _answered(given, url)
    return text


async def add_source(resources: Resources, given: GivenSource, *, seen: str, actor: str) -> None:
    """`seen` is the digest of the file that the form was made for. Raises Invalid."""
    text = await try_source(resources, given)
    await _write(resources, text, seen=seen, actor=actor, action="source.added", subject=given.name)


async def change_source(resources: Resources, given: GivenSource, *, seen: str, actor: str) -> None:
    """Exports that run go on reading where they began. Raises Invalid."""
    text = await try_source(resources, given, changes=True)
    if text != (await content(resources)).text:
        await _write(resources, text, seen=seen, actor=actor, action="source.changed", subject=given.name)


async def delete_source(resources: Resources, name: str, *, seen: str, actor: str) -> None:
    """Only one that no dataset reads. Raises Invalid."""
    found = await content(resources)
    _written(found.text, name)
    if titles := users_of(await catalog_of(resources, found.text, field=""), name):
        raise Invalid([FieldError("", say("Datasets read it: {titles}.", titles=", ".join(titles)))])
    try:
        text = without_source(found.text, name)
    except Entangled:
        raise Invalid([FieldError("", ENTANGLED)]) from None
    await catalog_of(resources, text, field="")
    await _write(resources, text, seen=seen, actor=actor, action="source.deleted", subject=name)


async def _write(resources: Resources, text: str, *, seen: str, actor: str, action: str, subject: str) -> None:
    """Raises Invalid."""
    await source_secrets.remember(resources, (await content(resources)).text, text)
    await save(resources, text, seen=seen, actor=actor, action=action, subject=subject)


def _written(text: str, name: str) -> str:
    """The URL as the file has it. Raises Invalid."""
    try:
        return str(tomllib.loads(text)["sources"][name]["url"])
    except tomllib.TOMLDecodeError:
        raise mistaken() from None
    except (KeyError, TypeError):
        raise Invalid([FieldError("", say("This source is no longer in the file."))]) from None


def _is_of_sources(reference: str) -> bool:
    return Path(reference.removeprefix("file:")).name.lower().startswith(OF_SOURCES)


def _check_source(given: GivenSource, before: str) -> None:
    """What stands in the form, for a file that says `before`. A password in clear would be in it for good."""
    if not given.url.startswith("${"):
        _check_scheme(given, given.written_url)
    references = source_secrets.references(given.url)
    if any(name.startswith(PREFIX) for name in references):
        raise Invalid([FieldError("url", say("The desk’s own settings cannot be part of a source."))])
    others = [each for each in references if not _is_of_sources(each)]
    known = {each for url in source_secrets.urls_in(before) for each in source_secrets.references(url)}
    if not known.issuperset(others):
        told = say(
            "Only what is named like {name} or {file} may stand here, or what the datasets’ file refers to already.",
            name="${SOURCE_NAME}",
            file="${file:/PATH/source_name}",
        )
        raise Invalid([FieldError("url", told)])
    text = INSERT.sub(REFERENCE, given.url)
    try:
        parts = urlsplit(text)
        secrets = [parts.password, *(value for key, value in parse_qsl(parts.query) if "passw" in key.lower())]
    except ValueError:
        secrets = []
    if any(secret and secret != REFERENCE for secret in secrets):
        told = say(
            "The password would be kept in clear. Write {name} or {file} in its place.",
            name="${SOURCE_NAME}",
            file="${file:/PATH/source_name}",
        )
        raise Invalid([FieldError("url", told)])


def _check_scheme(given: GivenSource, url: str) -> None:
    kind = KINDS[given.kind]
    if url.partition("://")[0] not in kind.schemes:
        told = say("This is no address of the chosen kind. It looks like this: {example}", example=kind.example)
        raise Invalid([FieldError("url", told)])


def _check_place(resources: Resources, given: GivenSource, url: str) -> None:
    """`url` as it is read. The data folder holds the desk's own secrets, and other people's files."""
    _check_scheme(given, url)
    read = [name.removeprefix("file:") for name in source_secrets.references(given.url) if name.startswith("file:")]
    read += [url.removeprefix(KINDS[given.kind].prefix)] if given.kind in OWN_FILES else []
    folder, own = file_of(resources).path.parent, resources.settings.data_dir.resolve()
    if any(_is_inside(folder / path, own) for path in read):
        told = say("This is the desk’s own data folder. Keep sources and secrets elsewhere.")
        raise Invalid([FieldError("url", told)])


def _is_inside(path: Path, own: Path) -> bool:
    """Whether the path, or what its wild cards may stand for, is in the folder."""
    directory = str(path.parent)
    fixed = WILD.split(directory, maxsplit=1)[0]
    place = (path if fixed == directory else Path(fixed)).resolve()
    return place.is_relative_to(own) or (fixed != directory and own.is_relative_to(place.parent))


async def _answered(given: GivenSource, url: str) -> None:
    """Raises Invalid; where something is put into the URL, or hidden in it, in no words that may quote it."""
    is_filled = bool(source_secrets.references(given.url)) or HIDDEN in given.url
    try:
        if sentence := await in_time(sources.missing, url):
            raise Invalid([FieldError("url", UNREACHABLE if is_filled else sentence)])
        await in_time(_probe, url, KINDS[given.kind].probe)
    except AttemptFailed as failure:
        raise Invalid([FieldError("url", _told(failure, is_filled=is_filled))]) from None


def _told(failure: AttemptFailed, *, is_filled: bool) -> str:
    if is_filled:
        return (
            _refusal(failure)
            if failure.code is ErrorCode.SOURCE_UNREACHABLE or "detail" in failure.details
            else reason_of(failure)
        )
    if failure.code is ErrorCode.SOURCE_UNREACHABLE and failure.__cause__:
        return say("The data source could not be reached: {reason}.", reason=one_line(str(failure.__cause__)))
    return reason_of(failure)


def _refusal(failure: AttemptFailed) -> str:
    told = str(failure.__cause__ or "")
    return next((sentence for pattern, sentence in REFUSALS.items() if pattern.search(told)), UNREACHABLE)


def _probe(url: str, sql: str) -> None:
    sources.preview(url, sql, {}, rows=1, seconds=PREVIEW_SECONDS)
