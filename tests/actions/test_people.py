"""People: passwords, sessions, one-time links, tokens, and what the audit log says of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
from argon2 import extract_parameters
from fresh_stores import Clock
from sqlalchemy import select, update

from webapp import bus
from webapp.actions import accounts, groups, passwords, people, users
from webapp.domain.access import LastAdmin, NotFound, Role, Scope, TooManyTries, Viewer
from webapp.domain.errors import Invalid
from webapp.domain.tries import LIMITS
from webapp.resources import Resources
from webapp.store import tables
from webapp.store.people import User, hash_token

PASSWORD = "correct horse battery"


@pytest.fixture
async def ann(each_resources: Resources) -> User:
    return await people.add_user(each_resources, "ann", Role.USER, actor="tests", password=PASSWORD)


@pytest.fixture
async def clock(each_resources: Resources, ann: User) -> Clock:
    return await Clock.of(each_resources.store)


async def disable(resources: Resources, user: User) -> None:
    at = await resources.store.now()
    await resources.store.execute(update(tables.users).where(tables.users.c.id == user.id).values(disabled_at=at))


async def signed_in(resources: Resources, name: str = "ann", password: str = PASSWORD) -> people.NewSession:
    session = await people.sign_in(resources, name, password)
    assert session is not None
    return session


async def audit_rows(resources: Resources) -> list[tuple[Any, ...]]:
    query = select(tables.audit_log).order_by(tables.audit_log.c.timestamp, tables.audit_log.c.id)
    return [
        (row["actor"], row["action"], row["subject"], row["details"]) for row in await resources.store.fetch_all(query)
    ]


async def everything(resources: Resources) -> str:
    """All rows of the tables about people, as one text."""
    found: list[str] = []
    for table in (tables.users, tables.sessions, tables.api_tokens, tables.audit_log):
        found += [str(dict(row)) for row in await resources.store.fetch_all(select(table))]
    return "\n".join(found)


# Users


async def test_a_user_is_added_once(each_resources: Resources, ann: User):
    assert await people.user_named(each_resources, "ann") == ann
    with pytest.raises(Invalid, match="a user named ann already"):
        await people.add_user(each_resources, "ann", Role.ADMIN, actor="tests")
    assert await people.list_users(each_resources) == [ann]
    with pytest.raises(NotFound):
        await people.user_named(each_resources, "bob")


async def test_of_equal_names_at_once_one_is_taken(each_resources: Resources):
    added = await asyncio.gather(
        *(people.add_user(each_resources, "bob", Role.USER, actor="tests") for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(user, User) for user in added) == 1
    assert sum(isinstance(user, Invalid) for user in added) == 4


@pytest.mark.parametrize("name", ["", " ", "a b", ".ann", "a" * 64, "ann\n", "änn", "a/b", "<b>", "a\u0000"])
async def test_names_that_cannot_be_one(resources: Resources, name: str):
    with pytest.raises(Invalid) as refused:
        await people.add_user(resources, name, Role.USER, actor="tests")
    assert [error.field for error in refused.value.errors] == ["name"]
    assert await people.list_users(resources) == []


@pytest.mark.parametrize("name", ["a", "7up", "ann.lee+x@example.org", "a" * 63])
async def test_names_that_can(resources: Resources, name: str):
    await people.add_user(resources, name, Role.USER, actor="tests")
    assert (await people.user_named(resources, name)).name == name


@pytest.mark.parametrize("password", ["", "short", "x" * 9, "x" * 201])
async def test_weak_passwords_are_refused_and_nothing_is_written(resources: Resources, password: str):
    with pytest.raises(Invalid) as refused:
        await people.add_user(resources, "bob", Role.USER, actor="tests", password=password)
    assert [error.field for error in refused.value.errors] == ["password"]
    assert await everything(resources) == ""


async def test_a_role_is_in_force_at_once(each_resources: Resources, ann: User):
    session = await signed_in(each_resources)
    await people.set_role(each_resources, "ann", Role.ADMIN, actor="root")
    viewer = await people.viewer_of_session(each_resources, session.token)
    assert viewer is not None
    assert viewer.is_admin
    with pytest.raises(NotFound):
        await people.set_role(each_resources, "bob", Role.ADMIN, actor="root")


# Passwords and sessions


async def test_signing_in_gives_a_session(each_resources: Resources, ann: User):
    session = await signed_in(each_resources)
    assert session.max_age == 14 * 24 * 3600
    viewer = await people.viewer_of_session(each_resources, session.token)
    assert viewer is not None
    assert (viewer.id, viewer.name, viewer.role) == (ann.id, "ann", Role.USER)
    assert viewer.session
    assert (await signed_in(each_resources)).token != session.token


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", "wrong horse battery"),
        ("ann", ""),
        ("ann", PASSWORD + " "),
        ("ann", PASSWORD.upper()),
        ("ann", "x" * 100_000),
        ("ann", "nul\u0000byte"),
        ("bob", PASSWORD),
        ("", ""),
        ("x" * 100_000, PASSWORD),
        ("ann\u0000", PASSWORD),
        ("' OR 1=1 --", PASSWORD),
    ],
)
async def test_a_wrong_name_or_password_gives_nothing(each_resources: Resources, ann: User, name: str, password: str):
    assert await people.sign_in(each_resources, name, password) is None


async def test_without_a_password_nobody_signs_in(each_resources: Resources):
    await people.add_user(each_resources, "bob", Role.USER, actor="tests")
    for password in ("", "None", "anything at all"):
        assert await people.sign_in(each_resources, "bob", password) is None


async def test_the_answer_takes_one_hash_whether_or_not_there_is_such_a_user(
    each_resources: Resources, ann: User, monkeypatch: pytest.MonkeyPatch
):
    """Counted, not timed."""
    await people.add_user(each_resources, "nopassword", Role.USER, actor="tests")
    disabled = await people.add_user(each_resources, "gone", Role.USER, actor="tests", password=PASSWORD)
    await disable(each_resources, disabled)
    checked = 0
    verify: Callable[[str, str], bool] = passwords._verify

    def counted(password_hash: str, password: str) -> bool:
        nonlocal checked
        checked += 1
        return verify(password_hash, password)

    monkeypatch.setattr(passwords, "_verify", counted)
    for name in ("ann", "nobody", "nopassword", "gone"):
        assert await people.sign_in(each_resources, name, "wrong horse battery") is None
    assert checked == 4


def test_the_hash_that_stands_in_for_nobody_costs_as_much_as_a_real_one(monkeypatch: pytest.MonkeyPatch):
    """In a copy of the module: the tests' own has a cheaper hasher."""
    spec = spec_from_file_location("passwords_as_they_are", passwords.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert extract_parameters(module._NOBODY) == extract_parameters(module._hasher.hash(PASSWORD))
    assert extract_parameters(module._NOBODY).memory_cost >= 19 * 1024


async def test_a_new_password_signs_out_everywhere_and_the_old_one_is_dead(each_resources: Resources, ann: User):
    sessions = [await signed_in(each_resources) for _ in range(2)]
    async with bus.listen(each_resources.redis, bus.CHANNEL) as messages:
        await messages.get_message(timeout=2)
        await people.set_password(each_resources, "ann", "another good password", actor="root")
        assert bus.decode(await messages.get_message(timeout=2)) == bus.Hint("", ann.id, 0)
    for session in sessions:
        assert await people.viewer_of_session(each_resources, session.token) is None
    assert await people.sign_in(each_resources, "ann", PASSWORD) is None
    await signed_in(each_resources, password="another good password")
    with pytest.raises(Invalid):
        await people.set_password(each_resources, "ann", "short", actor="root")
    with pytest.raises(NotFound):
        await people.set_password(each_resources, "bob", "another good password", actor="root")


async def test_a_session_ends_after_a_fortnight(each_resources: Resources, clock: Clock):
    session = await signed_in(each_resources)
    clock.move(14 * 24 * 3600 - 0.001)
    assert await people.viewer_of_session(each_resources, session.token)
    clock.move(0.001)
    assert await people.viewer_of_session(each_resources, session.token) is None


async def test_signing_out_ends_this_session_alone(each_resources: Resources, ann: User):
    here, there = await signed_in(each_resources), await signed_in(each_resources)
    viewer = await people.viewer_of_session(each_resources, here.token)
    assert viewer is not None
    await people.sign_out(each_resources, viewer)
    await people.sign_out(each_resources, viewer)
    await people.sign_out(each_resources, Viewer(ann.id, "ann", Role.USER))
    assert await people.viewer_of_session(each_resources, here.token) is None
    assert await people.viewer_of_session(each_resources, there.token)


@pytest.mark.parametrize("token", ["", "x", "x" * 100_000, "nul\u0000", "ü"])
async def test_what_is_no_session_or_token_is_nobody(each_resources: Resources, ann: User, token: str):
    await signed_in(each_resources)
    assert await people.viewer_of_session(each_resources, token) is None
    assert await people.viewer_of_token(each_resources, token) is None
    assert await people.sign_in_once(each_resources, token) is None


# One-time links


async def link_token(resources: Resources, user: User) -> str:
    link = await people.make_sign_in_link(resources, user)
    assert link.startswith("http://testserver/sign-in/once/")
    return link.rsplit("/", 1)[1]


async def test_a_link_signs_in_once(each_resources: Resources, ann: User):
    token = await link_token(each_resources, ann)
    session = await people.sign_in_once(each_resources, token)
    assert session is not None
    viewer = await people.viewer_of_session(each_resources, session.token)
    assert viewer is not None
    assert viewer.id == ann.id
    assert await people.sign_in_once(each_resources, token) is None


async def test_a_link_that_is_followed_ten_times_at_once_signs_in_once(each_resources: Resources, ann: User):
    token = await link_token(each_resources, ann)
    sessions = await asyncio.gather(*(people.sign_in_once(each_resources, token) for _ in range(10)))
    assert sum(session is not None for session in sessions) == 1


async def test_a_link_runs_out_after_an_hour(each_resources: Resources, ann: User, clock: Clock):
    first, second = await link_token(each_resources, ann), await link_token(each_resources, ann)
    clock.move(3599.999)
    assert await people.sign_in_once(each_resources, first)
    clock.move(0.001)
    assert await people.sign_in_once(each_resources, second) is None


async def test_a_link_is_no_api_token_and_a_token_is_no_link(each_resources: Resources, ann: User):
    link = await link_token(each_resources, ann)
    _, token = await people.create_token(each_resources, ann, "script", actor="ann")
    assert await people.viewer_of_token(each_resources, link) is None
    assert await people.sign_in_once(each_resources, token) is None
    assert await people.viewer_of_token(each_resources, token)
    assert [t.name for t in await people.list_tokens(each_resources)] == ["script"]


# Disabled people


async def test_a_disabled_person_gets_in_by_no_way(each_resources: Resources, ann: User):
    session, link = await signed_in(each_resources), await link_token(each_resources, ann)
    _, token = await people.create_token(each_resources, ann, "script", actor="ann")
    await disable(each_resources, ann)
    assert await people.viewer_of_session(each_resources, session.token) is None
    assert await people.viewer_of_token(each_resources, token) is None
    assert await people.sign_in(each_resources, "ann", PASSWORD) is None
    assert await people.sign_in_once(each_resources, link) is None


# Tokens


async def test_a_token_works_until_it_is_revoked(each_resources: Resources, ann: User):
    token_id, token = await people.create_token(each_resources, ann, " script ", actor="ann")
    _, other = await people.create_token(each_resources, ann, "other", actor="ann")
    viewer = await people.viewer_of_token(each_resources, token)
    assert viewer == Viewer(ann.id, "ann", Role.USER, None)
    (listed, _) = await people.list_tokens(each_resources)
    assert (listed.id, listed.name, listed.revoked_at) == (token_id, "script", None)
    await people.revoke_token(each_resources, token_id, actor="ann")
    assert await people.viewer_of_token(each_resources, token) is None
    assert await people.viewer_of_token(each_resources, other) is not None
    for wrong in (token_id, "tok_nothing", ""):
        with pytest.raises(NotFound):
            await people.revoke_token(each_resources, wrong, actor="ann")


async def test_a_token_outlives_sessions(each_resources: Resources, ann: User, clock: Clock):
    _, token = await people.create_token(each_resources, ann, "script", actor="ann")
    await people.set_password(each_resources, "ann", "another good password", actor="ann")
    clock.move(timedelta(days=3650).total_seconds())
    assert await people.viewer_of_token(each_resources, token)


@pytest.mark.parametrize("name", ["", "  ", "x" * 101])
async def test_a_token_needs_a_name(each_resources: Resources, ann: User, name: str):
    with pytest.raises(Invalid):
        await people.create_token(each_resources, ann, name, actor="ann")


# What is kept


async def test_every_change_is_in_the_audit_log_in_order(each_resources: Resources, ann: User, clock: Clock):
    clock.move(1)
    await people.set_role(each_resources, "ann", Role.ADMIN, actor="root")
    clock.move(1)
    await people.set_password(each_resources, "ann", "another good password", actor="root")
    clock.move(1)
    token_id, _ = await people.create_token(each_resources, ann, "script", actor="ann")
    clock.move(1)
    await people.revoke_token(each_resources, token_id, actor="root")
    assert await audit_rows(each_resources) == [
        ("tests", "user.added", "ann", {}),
        ("root", "user.role", "ann", {"role": "admin"}),
        ("root", "user.password", "ann", {}),
        ("ann", "token.created", token_id, {"user": "ann", "name": "script", "scopes": sorted(Scope)}),
        ("root", "token.revoked", token_id, {"user": "ann", "name": "script"}),
    ]


async def test_signing_in_and_out_is_in_the_audit_log(each_resources: Resources, ann: User, clock: Clock):
    browser = people.Browser("192.0.2.7", "a browser")
    link = await link_token(each_resources, ann)
    clock.move(1)
    assert await people.sign_in(each_resources, "ANN", "not it", browser) is None
    session = await people.sign_in(each_resources, "ANN", PASSWORD, browser)
    assert session is not None
    clock.move(1)
    viewer = await people.viewer_of_session(each_resources, session.token)
    assert viewer is not None
    await people.sign_out(each_resources, viewer)
    await people.sign_out(each_resources, viewer)
    clock.move(1)
    assert await people.sign_in_once(each_resources, link, browser)
    assert await people.sign_in_once(each_resources, link, browser) is None
    assert (await audit_rows(each_resources))[1:] == [
        ("ann", "user.signed_in", "ann", {"by": "password", "address": "192.0.2.7"}),
        ("ann", "user.signed_out", "ann", {"ended": 1}),
        ("ann", "user.signed_in", "ann", {"by": "link", "address": "192.0.2.7"}),
    ]


async def test_what_was_refused_is_not_in_the_audit_log(each_resources: Resources, ann: User):
    with pytest.raises(Invalid):
        await people.add_user(each_resources, "ann", Role.USER, actor="tests")
    with pytest.raises(NotFound):
        await people.revoke_token(each_resources, "tok_nothing", actor="root")
    with pytest.raises(Invalid):
        await people.set_password(each_resources, "ann", "short", actor="root")
    assert await audit_rows(each_resources) == [("tests", "user.added", "ann", {})]


async def test_nothing_that_opens_a_door_is_kept_in_the_clear(each_resources: Resources, ann: User):
    session, link = await signed_in(each_resources), await link_token(each_resources, ann)
    _, token = await people.create_token(each_resources, ann, "script", actor="ann")
    kept = await everything(each_resources)
    for secret in (PASSWORD, session.token, link, token):
        assert secret not in kept
    assert "$argon2id$" in kept
    assert hash_token(token) in kept


async def test_two_admins_who_demote_each_other_leave_one(each_resources: Resources) -> None:
    for name in ("ann", "bob"):
        await people.add_user(each_resources, name, Role.ADMIN, actor="tests")
    demoted = await asyncio.gather(
        *(people.set_role(each_resources, name, Role.USER, actor="tests") for name in ("ann", "bob")),
        return_exceptions=True,
    )
    assert sorted(type(each) for each in demoted if each) == [LastAdmin]


async def test_what_can_be_no_name_or_id_is_not_found(each_resources: Resources, ann: User):
    viewer = Viewer(ann.id, ann.name, ann.role)
    with pytest.raises(NotFound):
        await people.user_named(each_resources, "a\0b")
    with pytest.raises(NotFound):
        await people.revoke_token(each_resources, "tok_\0", actor="ann")
    with pytest.raises(NotFound):
        await accounts.end_session(each_resources, viewer, "ses_\0")
    with pytest.raises(NotFound):
        await groups.withdraw(each_resources, "grt_\0", actor="ann")


async def test_groups_that_are_joined_at_once_are_all_joined(each_resources: Resources, ann: User):
    made = [await groups.create(each_resources, f"Group {n}", actor="tests") for n in range(6)]
    for group in made[:3]:
        await groups.add_member(each_resources, group, ann, actor="tests")
    await asyncio.gather(
        *(groups.remove_member(each_resources, group, ann, actor="tests") for group in made[:3]),
        *(groups.add_member(each_resources, group, ann, actor="tests") for group in made[3:]),
    )
    found = await users.look(each_resources, ann.id)
    assert {group.id for group in found.groups} == {group.id for group in made[3:]}


async def test_however_long_a_password_is_weighing_it_is_quick(monkeypatch: pytest.MonkeyPatch):
    weighed: list[str] = []

    def score(password: str, *_: object, **__: object) -> dict[str, int]:
        weighed.append(password)
        return {"score": 4}

    monkeypatch.setattr("zxcvbn.zxcvbn", score)
    await passwords.hashed("4@8({[<369&#!1|0$5+7%2xz" * 8, name="ann")
    assert [len(password) for password in weighed] == [24], "zxcvbn takes seconds for 72 of these"


# Names


@pytest.mark.parametrize("name", ["ann", "ANN", "aNn"])
async def test_a_name_is_one_whatever_its_case(each_resources: Resources, ann: User, name: str) -> None:
    assert (await people.user_named(each_resources, name)).id == ann.id
    assert await people.sign_in(each_resources, name, PASSWORD) is not None
    found = await people.viewer_by_proxy(each_resources, name)
    assert (found and found.id) == ann.id
    with pytest.raises(Invalid, match="There is a user named"):
        await people.add_user(each_resources, name, Role.USER, actor="tests")


@pytest.mark.parametrize("name", ["openid", "Proxy", "SYSTEM", "exportdesk"])
async def test_nobody_is_called_what_the_audit_log_calls_the_desk(resources: Resources, name: str) -> None:
    with pytest.raises(Invalid, match="Choose another name"):
        await people.add_user(resources, name, Role.USER, actor="tests")
    assert await people.viewer_by_proxy(resources, name) is None


async def test_tries_count_for_a_name_whatever_its_case(resources: Resources) -> None:
    browser = people.Browser("192.0.2.1")
    for number in range(LIMITS["both"]):
        assert await people.sign_in(resources, "ANN" if number % 2 else "ann", "not it at all", browser) is None
    with pytest.raises(TooManyTries):
        await people.sign_in(resources, "Ann", PASSWORD, browser)
