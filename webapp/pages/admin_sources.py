"""`/admin/sources`: where data comes from, connecting one more, changing and deleting one. What does not answer is not
written."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import catalog_edits, source_edits
from webapp.actions.source_edits import KINDS, GivenSource
from webapp.domain.access import NotFound
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.web.context import admin, resources
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, read_form
from webapp.web.render import page

URL_LENGTH = 2000
NOTHING = GivenSource("sqlite", "", "")


async def index(request: Request) -> Response:
    admin(request)
    catalog, file = resources(request).catalog, catalog_edits.file_of(resources(request))
    used = {name: source_edits.users_of(catalog, name) for name in catalog.sources}
    kinds = {name: _kind(source.url) for name, source in catalog.sources.items()}
    changeable = {name for name, source in catalog.sources.items() if source_edits.kind_of(source.url)}
    return page(
        request, "admin/sources.html", used=used, kinds=kinds, changeable=changeable, path_of_file=file.path,
        exists=file.path.exists(),
    )  # fmt: skip


async def new(request: Request) -> Response:
    admin(request)
    return await _form(request, NOTHING)


async def create(request: Request) -> Response:
    admin(request)
    return await _save(request, changes=False)


async def edit(request: Request) -> Response:
    admin(request)
    return await _form(request, await _stored(request), changes=True)


async def change(request: Request) -> Response:
    admin(request)
    await _stored(request)
    return await _save(request, changes=True)


async def delete(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, form, name = admin(request), await read_form(request), _name(request)
    if "confirmed" not in form:
        seen = (await catalog_edits.content(resources(request))).digest
        return page(request, "admin/confirm_delete_source.html", name=name, seen=seen)
    try:
        await source_edits.delete_source(resources(request), name, seen=form.text("seen"), actor=who.name)
    except Invalid as invalid:
        return await _form(request, await _stored(request), 422, changes=True, errors=messages_by_field(invalid.errors))
    return redirect(request, "/admin/sources", flash("source-deleted"))


async def _save(request: Request, *, changes: bool) -> Response:
    """Tries the source, and writes it unless the form asks only that."""
    who, form = admin(request), await read_form(request)
    given, only_tried = _given(request, form, changes=changes), form.text("only") == "try"
    try:
        _check_lengths(given, form)
        if only_tried:
            await source_edits.try_source(resources(request), given, changes=changes)
        else:
            save = source_edits.change_source if changes else source_edits.add_source
            await save(resources(request), given, seen=form.text("seen"), actor=who.name)
    except Invalid as invalid:
        return await _form(request, given, 422, changes=changes, errors=messages_by_field(invalid.errors))
    if only_tried:
        return await _form(request, given, changes=changes, answers=True)
    return redirect(request, "/admin/sources", flash("source-saved"))


async def _form(
    request: Request,
    given: GivenSource,
    status: int = 200,
    *,
    changes: bool = False,
    errors: Mapping[str, str] | None = None,
    answers: bool = False,
) -> Response:
    desk, told, seen = resources(request), dict(errors or {}), ""
    try:
        seen = (await catalog_edits.content(desk)).digest
    except Invalid as invalid:
        told |= messages_by_field(invalid.errors)
    return page(
        request, "admin/source.html", status, given=given, errors=told, answers=answers, kinds=KINDS, seen=seen,
        length=URL_LENGTH, path_of_file=catalog_edits.file_of(desk).path, changes=changes,
        users=source_edits.users_of(desk.catalog, given.name) if changes else [],
        is_hidden=changes and source_edits.HIDDEN in given.url,
    )  # fmt: skip


def _name(request: Request) -> str:
    """Of a source that is in use. Raises NotFound."""
    name: str = request.path_params["source"]
    if name not in resources(request).catalog.sources:
        raise NotFound
    return name


async def _stored(request: Request) -> GivenSource:
    return await source_edits.stored(resources(request), _name(request))


def _given(request: Request, form: Form, *, changes: bool) -> GivenSource:
    kind, name = form.text("kind"), _name(request) if changes else form.text("name").strip()[:64]
    return GivenSource(kind if kind in KINDS else "sqlite", name, form.text("url").strip())


def _check_lengths(given: GivenSource, form: Form) -> None:
    if form.text("kind") not in KINDS:
        raise Invalid([FieldError("kind", say("Choose one of these: {choices}.", choices=", ".join(KINDS)))])
    if not 1 <= len(given.url) <= URL_LENGTH or not given.url.isprintable():
        raise Invalid([FieldError("url", say("An address has 1 to {most} characters.", most=URL_LENGTH))])


def _kind(url: str) -> str:
    """What a source is called that a form could have connected, or its scheme; never more of its URL."""
    kind = source_edits.kind_of(url)
    return KINDS[kind].title if kind else url.partition(":")[0]
