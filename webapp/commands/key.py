"""`exportdesk key …`: puts another key in the place of the application's key, without losing what it sealed.

In two steps, since every process has to know the new key before anything is sealed under it: `rotate`, restart
everything, `finish`.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from webapp.commands.database import opened_store
from webapp.commands.failures import Failure
from webapp.commands.people import ACTOR
from webapp.sealing import Sealer, Unsealable
from webapp.settings import Settings, new_secret_key
from webapp.store import endpoints, people
from webapp.store.database import Store
from webapp.store.schema import require_current_schema
from webapp.web.words import counted

BATCH = 100


def run_rotate(settings: Settings) -> int:
    """Puts a new key before the one in use."""
    path = key_file(settings)
    if path is None:
        print("The key comes from EXPORTDESK_SECRET_KEY (or the file of EXPORTDESK_SECRET_KEY_FILE). Set it to")
        print("the new key, a space, and the key that is there now. A new key:")
        print(new_secret_key())
        print("Then restart everything, and run: exportdesk key finish")
        return 0
    if len(settings.secret_keys) > 1:
        raise Failure("A rotation is under way already. Restart everything, then run: exportdesk key finish")
    write_keys(path, (new_secret_key(), *settings.secret_keys))
    print(f"{path} has a new key, and the old one behind it. Restart everything, then run: exportdesk key finish")
    return 0


def run_finish(settings: Settings) -> int:
    """Seals everything under the first key, and drops the others."""
    if len(settings.secret_keys) < 2:
        raise Failure("There is only one key, so there is nothing to finish. To begin: exportdesk key rotate")
    count = asyncio.run(_reseal(settings))
    print(f"The secrets of {counted(count, 'endpoint')} are sealed under the new key.")
    if (path := key_file(settings)) is None:
        print(
            "Now take the old key out of EXPORTDESK_SECRET_KEY, so that only the first is left, and restart everything."
        )
    else:
        write_keys(path, settings.secret_keys[:1])
        print(f"{path} holds the new key alone. Processes that know both need no restart; one that was not")
        print("restarted since `exportdesk key rotate` knows only the old one: restart it, or it sends nothing.")
    return 0


def key_file(settings: Settings) -> Path | None:
    """The file in the data folder that the keys in use come from; None when they come from the environment."""
    path = settings.data_dir / "secret.key"
    try:
        kept = tuple(path.read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return None
    return path if kept == settings.secret_keys else None


def write_keys(path: Path, keys: Sequence[str]) -> None:
    """All or nothing: a key that is half written would be the loss of every secret."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".secret.key.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(keys) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


async def _reseal(settings: Settings) -> int:
    """How many endpoints there are. Raises Failure, and drops no key, unless the first key alone opens all of them."""
    await require_current_schema(settings.database_url)
    async with opened_store(settings.database_url) as store:
        count = await reseal_all(store, Sealer(*settings.secret_keys))
        if locked := await count_unsealable(store, Sealer(settings.secret_keys[0])):
            raise Failure(
                f"{counted(locked, 'endpoint')} sealed under the old key just now: not every process was restarted. "
                "Do that, then run exportdesk key finish again."
            )
        await _audit(store, count)
    return count


async def _audit(store: Store, count: int) -> None:
    async with store.transaction():
        await people.audit(
            store, actor=ACTOR, action="endpoint.secrets_resealed", subject="endpoints",
            at=await store.now(), details={"count": count},
        )  # fmt: skip


async def reseal_all(store: Store, sealer: Sealer) -> int:
    """Batch by batch, each a transaction. Gives back how many endpoints there are. Raises Failure."""
    last, count = "", 0
    while True:
        async with store.transaction():
            rows = await endpoints.sealed_after(store, last, limit=BATCH, lock=True)
            for row in rows:
                await endpoints.set_sealed(store, row["id"], _resealed(row, sealer))
        if not rows:
            return count
        last, count = rows[-1]["id"], count + len(rows)


def _resealed(row: Mapping[str, Any], sealer: Sealer) -> dict[str, str]:
    try:
        return {name: sealer.resealed(row[name]) for name in endpoints.SEALED if row[name]}
    except Unsealable:
        raise Failure(
            f"No key that is there opens the secrets of {row['id']}. Put the key that sealed them behind the others, "
            "or delete this endpoint; no key was dropped."
        ) from None


async def count_unsealable(store: Store, sealer: Sealer) -> int:
    """How many endpoints have something sealed under a key that is not there."""
    last, count = "", 0
    while True:
        async with store.connection():
            rows = await endpoints.sealed_after(store, last, limit=BATCH)
        if not rows:
            return count
        last = rows[-1]["id"]
        count += sum(not _opens(row, sealer) for row in rows)


def _opens(row: Mapping[str, Any], sealer: Sealer) -> bool:
    try:
        for name in endpoints.SEALED:
            if row[name]:
                sealer.open(row[name])
    except Unsealable:
        return False
    return True
