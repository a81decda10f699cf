"""What `up` has done before anything serves: schema, demo data, first admin, a sign-in link.

It is a process of its own (`python -m webapp.commands.prepare`), so that the supervisor stays small. Its standard
output is one line of JSON; what a person should read meanwhile goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass

from webapp.actions import people
from webapp.commands.failures import Failure, run_explained
from webapp.datasets.catalog import demo_path
from webapp.datasets.demo import make_demo
from webapp.domain.access import Role
from webapp.resources import Resources, open_resources
from webapp.settings import Settings, read_settings
from webapp.store.people import User
from webapp.store.schema import migrate

ADMIN = "admin"
ACTOR = "command line"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the supervisor prints of it."""

    link: str
    admin: str
    datasets: int


def make_demo_data(settings: Settings) -> None:
    path = demo_path(settings.data_dir)
    if settings.config is not None or path.exists():
        return
    print("Making the demo data (250,000 orders) …", file=sys.stderr, flush=True)
    try:
        make_demo(path)
    except OSError as error:
        raise Failure(f"The demo data cannot be written to {path} ({error.strerror}).") from None


async def prepare(settings: Settings) -> Prepared:
    """Raises StorageUnusable, among others."""
    await migrate(settings.database_url)
    await asyncio.to_thread(make_demo_data, settings)
    async with open_resources(settings) as resources:
        await resources.storage.check()
        admin = await first_admin(resources)
        link = await people.make_sign_in_link(resources, admin)
        return Prepared(link, admin.name, len(resources.catalog.datasets))


async def first_admin(resources: Resources) -> User:
    """The user `admin`, made when there is nobody yet; else whoever is an admin."""
    users = await people.list_users(resources)
    if not users:
        return await people.add_user(resources, ADMIN, Role.ADMIN, actor=ACTOR)
    admins = [user for user in users if user.role is Role.ADMIN and user.disabled_at is None]
    if not admins:
        raise Failure("There is no admin. Make one: exportdesk user add NAME --role admin")
    return next((user for user in admins if user.name == ADMIN), admins[0])


def main() -> int:
    print(json.dumps(asdict(asyncio.run(prepare(read_settings())))))
    return 0


if __name__ == "__main__":
    sys.exit(run_explained(main))
