"""`exportdesk user …` and `exportdesk token …`."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from webapp.actions import people, users
from webapp.commands.failures import Failure
from webapp.commands.terminal import table
from webapp.domain.access import NotFound, Role, Scope
from webapp.resources import Resources, open_resources
from webapp.settings import Settings, parse_duration
from webapp.store.people import User

ACTOR = "command line"


def run_with_resources(settings: Settings, work: Callable[[Resources], Awaitable[None]]) -> int:
    async def run() -> None:
        async with open_resources(settings) as resources:
            await work(resources)

    asyncio.run(run())
    return 0


async def add_user(resources: Resources, name: str, role: str, password: str | None) -> None:
    user = await people.add_user(resources, name, Role(role), actor=ACTOR, password=password)
    print(f"Added the user {name} with the role {role}.")
    if password is None:
        print("Sign in once within the hour with this link:")
        print(await people.make_sign_in_link(resources, user))


async def list_users(resources: Resources) -> None:
    rows = [("NAME", "ROLE", "PASSWORD", "ADDED", "DISABLED")]
    for user in await people.list_users(resources):
        has_password = "yes" if user.password_hash else "no"
        rows.append((user.name, user.role.value, has_password, shown(user.created_at), shown(user.disabled_at)))
    print(table(rows))


async def administer(resources: Resources, command: str, name: str) -> None:
    user = await user_named(resources, name)
    match command:
        case "disable":
            await users.disable(resources, user, actor=ACTOR)
            print(f"{name} is disabled: signed out everywhere, and tokens are refused.")
        case "enable":
            await users.enable(resources, user, actor=ACTOR)
            print(f"{name} is let in again.")
        case "reset":
            link = await users.reset(resources, user, actor=ACTOR)
            print(f"{name} has no password and is signed out everywhere. This link lets them in once:")
            print(link)
        case _:
            await users.delete(resources, user, actor=ACTOR)
            print(f"{name} is deleted, with exports, files and tokens.")


async def set_role(resources: Resources, name: str, role: str) -> None:
    await user_named(resources, name)
    await people.set_role(resources, name, Role(role), actor=ACTOR)
    print(f"{name} now has the role {role}.")


async def set_password(resources: Resources, name: str, *, from_stdin: bool) -> None:
    await user_named(resources, name)
    password = await asyncio.to_thread(password_from_stdin if from_stdin else ask_password)
    await people.set_password(resources, name, password, actor=ACTOR)
    print(f"{name} has a new password and is signed out everywhere.")


async def create_token(
    resources: Resources, user_name: str, name: str, *, scopes: Sequence[str], lifetime: str | None
) -> None:
    user = await user_named(resources, user_name)
    token_id, token = await people.create_token(
        resources, user, name, actor=ACTOR, scopes=frozenset(map(Scope, scopes)), lifetime=_lifetime(lifetime)
    )
    print(f"Token {token_id} acts as {user_name}. Send it as: Authorization: Bearer TOKEN")
    print("It is shown this once. To end it: exportdesk token revoke " + token_id)
    print(token)


async def list_tokens(resources: Resources) -> None:
    names = {user.id: user.name for user in await people.list_users(resources)}
    rows = [("ID", "USER", "NAME", "SCOPES", "CREATED", "LAST USED", "ENDS", "REVOKED")]
    for token in await people.list_tokens(resources):
        scopes = ",".join(scope.value for scope in Scope if scope in token.scopes)
        created, used, ends = map(shown, (token.created_at, token.last_used_at, token.expires_at))
        owner = names.get(token.user_id, "–")
        rows.append((token.id, owner, token.name, scopes, created, used, ends, shown(token.revoked_at)))
    print(table(rows))


def _lifetime(text: str | None) -> timedelta | None:
    try:
        return parse_duration(text) if text is not None else None
    except ValueError as error:
        raise Failure(f"--lifetime: {error}") from None


async def revoke_token(resources: Resources, token_id: str) -> None:
    try:
        await people.revoke_token(resources, token_id, actor=ACTOR)
    except NotFound:
        raise Failure(f"There is no token {token_id} in force. See: exportdesk token list") from None
    print(f"Revoked the token {token_id}.")


async def user_named(resources: Resources, name: str) -> User:
    try:
        return await people.user_named(resources, name)
    except NotFound:
        raise Failure(f"There is no user named {name}. See: exportdesk user list") from None


def password_from_stdin() -> str:
    """The first line, without its end."""
    return sys.stdin.readline().rstrip("\r\n")


def ask_password() -> str:
    if not sys.stdin.isatty():
        raise Failure("There is no terminal to ask for the password. Use --password-stdin.")
    password = getpass.getpass("New password: ")
    if getpass.getpass("The same again: ") != password:
        raise Failure("The two passwords differ; nothing was changed.")
    return password


def shown(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}Z" if moment else "–"
