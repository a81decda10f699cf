"""`/admin/users`: people, their roles and groups, and what an admin can do for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import groups, people, users
from webapp.domain import limits
from webapp.domain.access import LastAdmin, NotFound, Role
from webapp.domain.errors import Invalid
from webapp.pages.token_fields import token_row
from webapp.resources import Resources
from webapp.store import people as rows
from webapp.store.people import User
from webapp.store.rosters import UserFilter
from webapp.web import cursors
from webapp.web.context import admin, resources
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import messages_by_field, read_form
from webapp.web.render import page

HERE, TOKENS = "/admin/users", "/admin/tokens"
Action = Callable[[Resources, User], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What an address asks of a list: names with this in them, and where the page begins."""

    here: str
    text: str
    cursor: str

    def url(self, cursor: str = "") -> str:
        query = urlencode({name: value for name, value in (("q", self.text), ("cursor", cursor)) if value})
        return f"{self.here}?{query}" if query else self.here


def _list_query(request: Request, here: str) -> ListQuery:
    given = (request.query_params.get(name, "").strip().replace("\0", "") for name in ("q", "cursor"))
    text, cursor = (value[: limits.QUERY_TEXT_LENGTH] for value in given)
    return ListQuery(here, text, cursor)


async def index(request: Request) -> Response:
    return await _index(request)


async def _index(
    request: Request, status: int = 200, *, name: str = "", role: str = "user", errors: Mapping[str, str] | None = None
) -> Response:
    """By name, a page at a time."""
    admin(request)
    desk, query = resources(request), _list_query(request, HERE)
    shown, more = await users.listed(
        desk, UserFilter(query.text or None), limit=limits.PAGE_SIZE, after=query.cursor or None
    )
    return page(
        request,
        "admin/users.html",
        status,
        now=await desk.store.now(),
        query=query,
        people=shown,
        following=query.url(shown[-1].user.name) if more else None,
        name=name,
        role=role,
        errors=errors or {},
    )


async def invite(request: Request) -> Response:
    """The page after it shows the link, this once."""
    who, form = admin(request), await read_form(request)
    name, role = form.text("name").strip(), form.text("role", "user")
    chosen = Role.ADMIN if role == Role.ADMIN else Role.USER
    try:
        user, link = await users.invite(resources(request), name, chosen, actor=who.name)
    except Invalid as invalid:
        return await _index(request, 422, name=name[:100], role=role, errors=messages_by_field(invalid.errors))
    return page(request, "admin/link.html", 201, user=user, link=link, days=users.INVITATION_LIFETIME.days, is_new=True)


async def show(request: Request) -> Response:
    admin(request)
    desk, person = resources(request), await users.look(resources(request), request.path_params["user_id"])
    user = person.user
    async with desk.store.connection():
        now = await desk.store.now()
        sessions = await rows.sessions_of(desk.store, user.id, now=now)
    return page(
        request,
        "admin/user.html",
        now=now,
        user=user,
        link_until=person.link_until,
        sessions=sessions,
        groups=await groups.list_groups(desk),
        mine={group.id for group in person.groups},
        tokens=[token_row(token, now) for token in await people.list_tokens(desk, user.id) if token.is_in_force(now)],
    )


async def set_role(request: Request) -> Response:
    who, form = admin(request), await read_form(request)
    chosen = Role.ADMIN if form.text("role") == Role.ADMIN else Role.USER

    async def change(desk: Resources, user: User) -> None:
        await people.set_role(desk, user.name, chosen, actor=who.name)

    return await _change(request, change, flash("user-saved"))


async def set_groups(request: Request) -> Response:
    who, form = admin(request), await read_form(request)

    async def change(desk: Resources, user: User) -> None:
        await groups.set_of_user(desk, user, form.all("groups"), actor=who.name)

    return await _change(request, change, flash("user-saved"))


async def reset(request: Request) -> Response:
    """The page after it shows the link, this once."""
    who, user = admin(request), await _user(request)
    link = await users.reset(resources(request), user, actor=who.name)
    days = (users.RESET_LIFETIME if user.password_hash else users.INVITATION_LIFETIME).days
    return page(request, "admin/link.html", 201, user=user, link=link, days=days, is_new=False)


async def disable(request: Request) -> Response:
    who = admin(request)

    async def change(desk: Resources, user: User) -> None:
        await users.disable(desk, user, actor=who.name)

    return await _change(request, change, flash("user-disabled"))


async def enable(request: Request) -> Response:
    who = admin(request)

    async def change(desk: Resources, user: User) -> None:
        await users.enable(desk, user, actor=who.name)

    return await _change(request, change, flash("user-enabled"))


async def delete(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, user = admin(request), await _user(request)
    if "confirmed" not in await read_form(request):
        return page(request, "admin/confirm_delete.html", user=user)
    try:
        await users.delete(resources(request), user, actor=who.name)
    except LastAdmin:
        return redirect(request, f"{HERE}/{user.id}", flash("last-admin"))
    return redirect(request, HERE, flash("user-deleted"))


async def _change(request: Request, action: Action, done: Flash) -> Response:
    user = await _user(request)
    try:
        await action(resources(request), user)
    except LastAdmin:
        done = flash("last-admin")
    return redirect(request, f"{HERE}/{user.id}", done)


async def _user(request: Request) -> User:
    """Raises NotFound."""
    return await users.find(resources(request), request.path_params["user_id"])


async def tokens(request: Request) -> Response:
    """Everybody's that are in force, newest first, a page at a time."""
    admin(request)
    desk, query = resources(request), _list_query(request, TOKENS)
    after = cursors.decode(query.cursor, "tok")
    now = await desk.store.now()
    shown, more = await people.tokens_in_force(desk, text=query.text or None, limit=limits.PAGE_SIZE, after=after)
    return page(
        request,
        "admin/tokens.html",
        now=now,
        query=query,
        is_first=after is None,
        older=query.url(cursors.encode(shown[-1][0].created_at, shown[-1][0].id)) if more else None,
        tokens=[token_row(token, now, owner) for token, owner in shown],
    )


async def revoke_token(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, token_id = admin(request), request.path_params["token_id"]
    if "confirmed" not in await read_form(request):
        return page(request, "account/confirm_revocation.html", action=request.url.path, back=TOKENS)
    try:
        await people.revoke_token(resources(request), token_id, actor=who.name)
    except NotFound:
        return redirect(request, TOKENS, flash("token-gone"))
    return redirect(request, TOKENS, flash("token-revoked"))
