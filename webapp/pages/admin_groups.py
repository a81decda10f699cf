"""`/admin/groups` and `/admin/datasets`: groups, and to whom datasets are granted."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import catalog_edits, groups, people
from webapp.domain.access import NotFound
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store.grants import Group
from webapp.store.people import User
from webapp.web.context import admin, resources
from webapp.web.flash import flash, redirect
from webapp.web.forms import messages_by_field, read_form
from webapp.web.render import page

Errors = Mapping[str, str]


async def index(request: Request) -> Response:
    return await _index(request)


async def _index(request: Request, status: int = 200, *, name: str = "", errors: Errors | None = None) -> Response:
    admin(request)
    found = await groups.list_groups(resources(request))
    return page(request, "admin/groups.html", status, groups=found, name=name, errors=errors or {})


async def create(request: Request) -> Response:
    who, name = admin(request), (await read_form(request)).text("name")
    try:
        group = await groups.create(resources(request), name, actor=who.name)
    except Invalid as invalid:
        return await _index(request, 422, name=name[:100], errors=messages_by_field(invalid.errors))
    return redirect(request, f"/admin/groups/{group.id}", flash("group-saved"))


async def show(request: Request) -> Response:
    return await _show(request)


async def _show(request: Request, status: int = 200, *, typed: str = "", errors: Errors | None = None) -> Response:
    admin(request)
    desk, group = resources(request), await _group(request)
    return page(
        request,
        "admin/group.html",
        status,
        group=group,
        members=await groups.members(desk, group),
        datasets=[a.dataset for a in await groups.access(desk) if group.id in {grant.group_id for grant in a.grants}],
        typed=typed,
        errors=errors or {},
    )


async def rename(request: Request) -> Response:
    who, group, name = admin(request), await _group(request), (await read_form(request)).text("name")
    try:
        await groups.rename(resources(request), group, name, actor=who.name)
    except Invalid as invalid:
        return await _show(request, 422, errors=messages_by_field(invalid.errors))
    return redirect(request, f"/admin/groups/{group.id}", flash("group-saved"))


async def change_members(request: Request) -> Response:
    """Adds who is named by `add`, or takes out who is named by `remove`."""
    who, group, form = admin(request), await _group(request), await read_form(request)
    desk, name = resources(request), form.text("add") or form.text("remove")
    try:
        user = await _person(desk, name)
    except Invalid as invalid:
        return await _show(request, 422, typed=name[:100], errors=messages_by_field(invalid.errors))
    act = groups.add_member if form.text("add") else groups.remove_member
    await act(desk, group, user, actor=who.name)
    return redirect(request, f"/admin/groups/{group.id}", flash("group-saved"))


async def delete(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, group = admin(request), await _group(request)
    if "confirmed" not in await read_form(request):
        return page(request, "admin/confirm_delete_group.html", group=group)
    await groups.delete(resources(request), group, actor=who.name)
    return redirect(request, "/admin/groups", flash("group-deleted"))


async def datasets(request: Request) -> Response:
    admin(request)
    return page(request, "admin/datasets.html", access=await groups.access(resources(request)))


async def dataset(request: Request) -> Response:
    return await _dataset(request)


async def _dataset(request: Request, status: int = 200, *, typed: str = "", errors: Errors | None = None) -> Response:
    admin(request)
    desk = resources(request)
    access = await groups.access_to(desk, request.path_params["name"])
    held = {grant.group_id for grant in access.grants}
    offered = [group for group in await groups.list_groups(desk) if group.id not in held]
    return page(
        request,
        "admin/dataset.html",
        status,
        access=access,
        groups=offered,
        typed=typed,
        errors=errors or {},
        is_query=access.dataset.source in catalog_edits.sources_for_queries(desk.catalog),
    )


async def delete_dataset(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, form, desk = admin(request), await read_form(request), resources(request)
    dataset = (await groups.access_to(desk, request.path_params["name"])).dataset
    try:
        if "confirmed" not in form:
            seen = (await catalog_edits.content(desk)).digest
            hanging = await catalog_edits.dependants(desk, dataset.name)
            return page(request, "admin/confirm_delete_dataset.html", dataset=dataset, seen=seen, hanging=hanging)
        await catalog_edits.delete_dataset(desk, dataset.name, seen=form.text("seen"), actor=who.name)
    except Invalid as invalid:
        return await _dataset(request, 422, errors=messages_by_field(invalid.errors))
    return redirect(request, "/admin/datasets", flash("dataset-deleted"))


async def grant(request: Request) -> Response:
    """To the group `group`, or else to the person named `person`."""
    who, form, desk, name = admin(request), await read_form(request), resources(request), request.path_params["name"]
    try:
        to = (
            await groups.find(desk, form.text("group"))
            if form.text("group")
            else await _person(desk, form.text("person"))
        )
    except Invalid as invalid:
        return await _dataset(request, 422, typed=form.text("person")[:100], errors=messages_by_field(invalid.errors))
    await groups.grant(desk, name, to, actor=who.name)
    return redirect(request, f"/admin/datasets/{name}", flash("granted"))


async def withdraw(request: Request) -> Response:
    who, name = admin(request), request.path_params["name"]
    await groups.withdraw(resources(request), (await read_form(request)).text("grant"), actor=who.name)
    return redirect(request, f"/admin/datasets/{name}", flash("withdrawn"))


async def open_to_all(request: Request) -> Response:
    who, name = admin(request), request.path_params["name"]
    await groups.access_to(resources(request), name)
    await groups.open_to_all(resources(request), name, actor=who.name)
    return redirect(request, f"/admin/datasets/{name}", flash("opened"))


async def _group(request: Request) -> Group:
    """Raises NotFound."""
    return await groups.find(resources(request), request.path_params["group_id"])


async def _person(desk: Resources, name: str) -> User:
    """Raises Invalid."""
    if not name.strip():
        raise Invalid([FieldError("person", say("Write the name of a user."))])
    try:
        return await people.user_named(desk, name.strip())
    except NotFound:
        raise Invalid([FieldError("person", say("There is no user named {name}.", name=name[:80]))]) from None
