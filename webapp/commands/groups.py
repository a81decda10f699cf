"""`exportdesk group …` and `exportdesk grant …`."""

from __future__ import annotations

from webapp.actions import groups
from webapp.commands.failures import Failure
from webapp.commands.people import ACTOR, user_named
from webapp.commands.terminal import table
from webapp.domain.access import NotFound
from webapp.resources import Resources
from webapp.store.grants import Group


async def run_group(resources: Resources, command: str, group: str, user: str) -> None:
    match command:
        case "list":
            await _list_groups(resources)
        case "add":
            await groups.create(resources, group, actor=ACTOR)
            print(f"Made the group {group}.")
        case "delete":
            await groups.delete(resources, await _group_named(resources, group), actor=ACTOR)
            print(f"Deleted the group {group}.")
        case "join":
            member = await user_named(resources, user)
            await groups.add_member(resources, await _group_named(resources, group), member, actor=ACTOR)
            print(f"{user} is in the group {group}.")
        case _:
            member = await user_named(resources, user)
            await groups.remove_member(resources, await _group_named(resources, group), member, actor=ACTOR)
            print(f"{user} is not in the group {group}.")


async def run_grant(resources: Resources, command: str, dataset: str, user: str, group: str) -> None:
    if command == "list":
        await _list_grants(resources)
        return
    access = await _access_to(resources, dataset)
    if command == "open":
        await groups.open_to_all(resources, dataset, actor=ACTOR)
        print(f"{dataset} is granted to nobody in particular: its roles alone decide.")
        return
    to = await (user_named(resources, user) if user else _group_named(resources, group))
    if command == "add":
        await groups.grant(resources, dataset, to, actor=ACTOR)
        print(f"{dataset} is granted to {to.name}.")
        return
    held = next((grant for grant in access.grants if to.id in {grant.user_id, grant.group_id}), None)
    if held is None:
        raise Failure(f"{dataset} is not granted to {to.name}. See: exportdesk grant list")
    await groups.withdraw(resources, held.id, actor=ACTOR)
    print(f"{dataset} is not granted to {to.name} any more.")


async def _list_groups(resources: Resources) -> None:
    rows = [("GROUP", "MEMBERS")]
    for group in await groups.list_groups(resources):
        names = ", ".join(user.name for user in await groups.members(resources, group))
        rows.append((group.name, names or "–"))
    print(table(rows))


async def _list_grants(resources: Resources) -> None:
    rows = [("DATASET", "ROLES", "GRANTED TO")]
    for access in await groups.access(resources):
        names = ", ".join(f"{'group ' if grant.group_id else ''}{grant.name}" for grant in access.grants)
        held = (names or "nobody but admins") if access.is_granted else "–"
        rows.append((access.dataset.name, ",".join(sorted(access.dataset.roles)), held))
    print(table(rows))


async def _group_named(resources: Resources, name: str) -> Group:
    try:
        return await groups.find(resources, name)
    except NotFound:
        raise Failure(f"There is no group named {name}. See: exportdesk group list") from None


async def _access_to(resources: Resources, dataset: str) -> groups.Access:
    try:
        return await groups.access_to(resources, dataset)
    except NotFound:
        raise Failure(f"There is no dataset named {dataset}. See: exportdesk grant list") from None
