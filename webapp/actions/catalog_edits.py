"""Admins write datasets by form: tried first, then written into the catalog's file, and audited."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tomlkit.exceptions import TOMLKitError

from webapp.actions import datasets
from webapp.actions.datasets import Preview
from webapp.datasets.catalog import NAME, check_text, read_catalog
from webapp.datasets.catalog_file import CannotSave, CatalogFile, Content
from webapp.datasets.declaration import BadCatalog, Catalog, Problem
from webapp.datasets.declaring import (
    DeclaredDataset,
    Entangled,
    with_changed_dataset,
    with_dataset,
    without_dataset,
)
from webapp.domain.errors import AttemptFailed, ErrorCode, FieldError, Invalid, export_error, recalled
from webapp.domain.sentences import Text, say
from webapp.resources import Resources
from webapp.settings import source_environment
from webapp.store import exports, saved_orders
from webapp.store.people import audit

ANSWER_SECONDS = 15.0
"""For a source to be reached and to prepare a query; a name that leads nowhere may take its resolver long."""
PREVIEWED = "previewed-by-form"
GONE = say("This dataset is no longer in the file.")
ENTANGLED = say("How the file writes it, only an editor can take it out.")
Answer = TypeVar("Answer")


def file_of(resources: Resources) -> CatalogFile:
    return CatalogFile(resources.settings.catalog_file)


async def content(resources: Resources) -> Content:
    """The file as it is now. Raises Invalid."""
    try:
        return await asyncio.to_thread(file_of(resources).read)
    except BadCatalog as bad:
        raise Invalid(errors_of(bad.problems)) from None


def sources_for_queries(catalog: Catalog) -> list[str]:
    """Names of the sources whose datasets are queries; those in Python are written where their code is."""
    return [name for name, source in catalog.sources.items() if not source.url.startswith("python:")]


async def preview(
    resources: Resources, dataset: DeclaredDataset, values: Mapping[str, Any], *, changes: bool, zone: str | None
) -> Preview:
    """Its first rows, with these parameters. Raises Invalid, and AttemptFailed when the source refuses."""
    draft = dataset if changes else replace(dataset, name=PREVIEWED)
    draft = replace(draft, title=draft.title or PREVIEWED)
    catalog = await catalog_of(resources, _text_with(await content(resources), draft, changes=changes), field="sql")
    return await datasets.preview(resources.with_catalog(catalog), catalog.datasets[draft.name], values, zone=zone)


async def save_dataset(resources: Resources, dataset: DeclaredDataset, *, changes: bool, seen: str, actor: str) -> None:
    """A new one, or one that `changes`. Only what `exportdesk datasets check` would pass. Raises Invalid."""
    found = await content(resources)
    if not changes:
        check_name(dataset.name, resources.catalog.datasets, say("There is a dataset of this name already."))
    text = _text_with(found, dataset, changes=changes)
    catalog = await catalog_of(resources, text, field="sql")
    checked = catalog.datasets[dataset.name]
    part = Catalog({dataset.name: checked}, {checked.source: catalog.source_of(checked)})
    try:
        problems = await in_time(check_text, part, text, file_of(resources).path)
    except AttemptFailed as failure:
        raise Invalid([FieldError("sql", reason_of(failure))]) from None
    if problems:
        raise Invalid(errors_of(problems, "sql"))
    action = "dataset.changed" if changes else "dataset.added"
    await save(resources, text, seen=seen, actor=actor, action=action, subject=dataset.name)


@dataclass(frozen=True, slots=True)
class Dependants:
    """What would have no dataset any more: saved orders, those of them with a schedule, and exports that have not
    ended."""

    saved_orders: int
    scheduled: int
    active: int


async def dependants(resources: Resources, name: str) -> Dependants:
    store = resources.store
    async with store.connection():
        return Dependants(*await saved_orders.count_of(store, name), await exports.count_active_of(store, name))


async def delete_dataset(resources: Resources, name: str, *, seen: str, actor: str) -> None:
    """Takes it out of the file. Its exports stay, with their files, and so do its grants. Raises Invalid."""
    found = await content(resources)
    try:
        text = without_dataset(found.text, name)
    except (TOMLKitError, tomllib.TOMLDecodeError):
        raise mistaken() from None
    except KeyError:
        raise Invalid([FieldError("", GONE)]) from None
    except Entangled:
        raise Invalid([FieldError("", ENTANGLED)]) from None
    await catalog_of(resources, text, field="")
    await save(resources, text, seen=seen, actor=actor, action="dataset.deleted", subject=name)


def _text_with(found: Content, dataset: DeclaredDataset, *, changes: bool) -> str:
    """Raises Invalid."""
    try:
        return (with_changed_dataset if changes else with_dataset)(found.text, dataset)
    except TOMLKitError:
        raise mistaken() from None
    except KeyError:
        raise Invalid([FieldError("name", GONE)]) from None


def mistaken() -> Invalid:
    told = say("The file has mistakes. Mend them first: {command} lists them.", command="exportdesk datasets check")
    return Invalid([FieldError("", told)])


def check_name(name: str, taken: Mapping[str, Any], is_taken: Text) -> None:
    if not NAME.fullmatch(name):
        told = say("A name is a small letter, then at most 62 small letters, digits, _ and -.")
        raise Invalid([FieldError("name", told)])
    if name in taken:
        raise Invalid([FieldError("name", is_taken)])


async def in_time(act: Callable[..., Answer], *given: Any) -> Answer:
    """Raises AttemptFailed with TIMEOUT; the thread ends by its own limits."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(act, *given), ANSWER_SECONDS)
    except TimeoutError:
        raise AttemptFailed(ErrorCode.TIMEOUT, limit=f"{ANSWER_SECONDS:g} s") from None


async def catalog_of(resources: Resources, text: str, *, field: str) -> Catalog:
    """Raises Invalid."""
    try:
        return await asyncio.to_thread(read_catalog, text, file_of(resources).path, source_environment())
    except BadCatalog as bad:
        raise Invalid(errors_of(bad.problems, field)) from None


def errors_of(problems: Sequence[Problem], field: str = "") -> list[FieldError]:
    return [FieldError(field, problem.message) for problem in problems]


def reason_of(failure: AttemptFailed) -> str:
    return recalled(export_error(failure.code, **failure.details))


async def save(resources: Resources, text: str, *, seen: str, actor: str, action: str, subject: str) -> None:
    """In use in this process at once, in every other one at its next look."""
    try:
        await asyncio.to_thread(file_of(resources).replace, text, seen=seen)
    except CannotSave as refusal:
        raise Invalid([FieldError("", refusal.reason)]) from None
    async with resources.store.transaction():
        await audit(resources.store, actor=actor, action=action, subject=subject, at=await resources.store.now())
    await asyncio.to_thread(resources.holder.refresh)
