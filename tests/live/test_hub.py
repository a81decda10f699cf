"""The hub: one subscription, many readers, no hint that is lost without being told."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from patience import PATIENCE

from webapp import bus, queue
from webapp.live.hub import BLIND_POLL_SECONDS, MAX_CHANGED, Changes, Hub
from webapp.resources import Resources

EVERYTHING = Changes(everything=True)


@pytest.fixture
async def hub(resources: Resources) -> AsyncIterator[Hub]:
    async with Hub(resources.redis).running() as running:
        await eventually(lambda: running.is_connected)
        yield running


async def eventually(is_so: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """How long it took to become so."""
    started = time.monotonic()
    while not is_so():
        assert time.monotonic() - started < seconds, "it never became so"
        await asyncio.sleep(0.02)
    return time.monotonic() - started


async def tell(resources: Resources, export: str, owner: str = "usr_a", version: int = 1) -> None:
    await bus.publish(resources.redis, bus.Hint(export, owner, version))


async def cut(resources: Resources) -> None:
    """As a restart of the broker does to the subscription."""
    await resources.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")


async def test_a_reader_hears_of_its_owners_exports_only(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a") as mine, hub.reader(owner="usr_b") as theirs, hub.reader(owner=None) as everybodys:
        await tell(resources, "exp_1", "usr_a")
        assert await mine.changes(2) == Changes(frozenset({"exp_1"}))
        assert await everybodys.changes(2) == Changes(frozenset({"exp_1"}))
        assert await theirs.changes(0.1) is None


async def test_a_reader_hears_of_its_exports_only(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a", ids=frozenset({"exp_1"})) as one:
        await tell(resources, "exp_2")
        assert await one.changes(0.2) is None
        await tell(resources, "exp_1")
        assert await one.changes(2) == Changes(frozenset({"exp_1"}))


async def test_everybody_of_that_person_hears_of_a_sign_out(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a", ids=frozenset({"exp_1"})) as one, hub.reader(owner="usr_a") as all_of_them:
        await tell(resources, "", "usr_a", 0)
        assert await one.changes(2) == Changes(frozenset({""}))
        assert await all_of_them.changes(2) == Changes(frozenset({""}))


async def test_many_hints_are_one_change(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a") as slow, hub.reader(owner="usr_a") as last:
        for version in range(200):
            await tell(resources, f"exp_{version % 3}", version=version)
        await tell(resources, "exp_last")
        await eventually(lambda: "exp_last" in last._changed)
        assert await slow.changes(0) == Changes(frozenset({"exp_0", "exp_1", "exp_2", "exp_last"}))
        assert await slow.changes(0.05) is None


async def test_hints_that_travel_together_all_arrive(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a") as one:
        await bus.publish(resources.redis)
        await bus.publish(resources.redis, *(bus.Hint(f"exp_{number}", "usr_a", 1) for number in range(3)))
        found = set[str]()
        while len(found) < 3:
            changes = await one.changes(PATIENCE)
            assert changes is not None
            found |= changes.ids
        assert found == {"exp_0", "exp_1", "exp_2"}


async def test_a_reader_that_falls_behind_keeps_a_bound_and_reads_everything(hub: Hub) -> None:
    with hub.reader(owner="usr_a") as slow:
        for n in range(10 * MAX_CHANGED):
            hub._tell(bus.Hint(f"exp_{n}", "usr_a", 1))
        assert len(slow._changed) == MAX_CHANGED
        changes = await slow.changes(0)
        assert changes is not None
        assert changes.everything
        assert await slow.changes(0.05) is None, "it starts afresh"


async def test_a_hint_between_two_looks_is_kept(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a") as reader:
        await tell(resources, "exp_1")
        await eventually(lambda: bool(reader._changed))
        assert await reader.changes(0) == Changes(frozenset({"exp_1"}))


async def test_a_wait_that_is_given_up_loses_nothing(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a") as reader:
        waiting = asyncio.create_task(reader.changes(PATIENCE))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await tell(resources, "exp_1")
        assert await reader.changes(2) == Changes(frozenset({"exp_1"}))


async def test_readers_that_left_are_forgotten(hub: Hub) -> None:
    with (
        contextlib.suppress(RuntimeError),
        hub.reader(owner="usr_a"),
        hub.reader(owner="usr_a"),
        hub.reader(owner=None),
    ):
        assert hub.open_readers == 3
        raise RuntimeError
    assert hub.open_readers == 0
    assert not hub._readers


async def test_after_a_cut_everything_is_read_again(hub: Hub, resources: Resources) -> None:
    with hub.reader(owner="usr_a", ids=frozenset({"exp_1"})) as one, hub.reader(owner=None) as all_of_them:
        await cut(resources)
        assert await one.changes(PATIENCE) == EVERYTHING
        assert await all_of_them.changes(PATIENCE) == EVERYTHING
        await eventually(lambda: hub.is_connected)
        await asyncio.sleep(0.1)
        await one.changes(0)
        await tell(resources, "exp_1")
        found = await one.changes(PATIENCE)
        assert found is not None
        assert "exp_1" in found.ids


async def test_a_hint_that_was_sent_into_the_cut_is_made_good(hub: Hub, resources: Resources) -> None:
    """Nobody hears the hint; but the reader is told to read everything after the new subscription is in force."""
    with hub.reader(owner="usr_a") as reader:
        await cut(resources)
        await tell(resources, "exp_1")
        deadline = time.monotonic() + PATIENCE
        while not hub.is_connected and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        found = await reader.changes(PATIENCE)
        assert found is not None
        assert found.everything


async def test_many_cuts_do_not_leave_connections_behind(hub: Hub, resources: Resources) -> None:
    for _ in range(5):
        await cut(resources)
        await asyncio.sleep(0.3)
    await eventually(lambda: hub.is_connected)
    listeners = await resources.redis.execute_command("CLIENT", "LIST", "TYPE", "pubsub")
    lines = listeners.decode() if isinstance(listeners, bytes) else str(listeners)
    assert lines.count("sub=1") == 1


async def test_without_a_broker_readers_look_often(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, resources: Resources
) -> None:
    assert hub.patience(15) == 15
    monkeypatch.setattr("webapp.bus.listen", refused)
    with hub.reader(owner="usr_a") as reader:
        waiting = asyncio.create_task(reader.changes(2 * PATIENCE))
        await asyncio.sleep(0.05)
        await cut(resources)
        assert await asyncio.wait_for(waiting, PATIENCE) == EVERYTHING, (
            "who waits for hints is told that none will come"
        )
        await eventually(lambda: not hub.is_connected)
        assert hub.patience(15) == BLIND_POLL_SECONDS
        assert hub.patience(0.2) == 0.2
        assert await reader.changes(0.5) is None, "and told once, not at every try"
    monkeypatch.undo()
    await eventually(lambda: hub.is_connected)
    assert hub.patience(15) == 15


def refused(*_args: object) -> Any:
    raise ConnectionError("refused")


async def test_a_hub_may_start_before_its_broker(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.bus.listen", refused)
    async with Hub(resources.redis).running() as hub:
        await asyncio.sleep(0.1)
        assert not hub.is_connected
        assert hub.patience(15) == BLIND_POLL_SECONDS
        with hub.reader(owner="usr_a") as reader:
            monkeypatch.undo()
            assert await reader.changes(PATIENCE) == EVERYTHING
            assert hub.is_connected


async def test_it_tries_again_slower_and_slower(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)
        if len(waits) > 8:
            await sleep(60)

    monkeypatch.setattr("webapp.bus.listen", refused)
    monkeypatch.setattr("webapp.live.hub.asyncio.sleep", noted)
    async with Hub(resources.redis).running():
        while len(waits) < 8:
            await sleep(0.01)
    assert waits[:7] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\xff" * 100, b"\x91" * 5000, b"null", b"\x93\xa2\xff\xff\xa1b\x01", b"x" * 1_000_000,
     *map(msgspec.msgpack.encode, (["a"], ["a", "b", "c"], [1, 2, 3], {"a": 1}))],
)  # fmt: skip
async def test_what_is_no_hint_is_passed_over(hub: Hub, resources: Resources, data: bytes) -> None:
    with hub.reader(owner="usr_a") as reader:
        await resources.redis.publish(bus.CHANNEL, data)
        await tell(resources, "exp_1")
        assert await reader.changes(2) == Changes(frozenset({"exp_1"}))
        assert hub.is_connected


async def test_one_subscription_serves_all_readers(hub: Hub, resources: Resources) -> None:
    readers = [hub.reader(owner="usr_a") for _ in range(500)]
    opened = [reader.__enter__() for reader in readers]
    await tell(resources, "exp_1")
    assert await asyncio.gather(*(reader.changes(2) for reader in opened)) == [Changes(frozenset({"exp_1"}))] * 500
    assert await resources.redis.execute_command("PUBSUB", "NUMSUB", bus.CHANNEL) == [bus.CHANNEL.encode(), 1]
    for reader in readers:
        reader.__exit__(None, None, None)
    assert hub.open_readers == 0


async def test_the_hub_ends_with_its_block(resources: Resources) -> None:
    async with Hub(resources.redis).running() as hub:
        await eventually(lambda: hub.is_connected)
    assert hub._task is not None
    assert hub._task.done()
    assert (await resources.redis.execute_command("PUBSUB", "NUMSUB", bus.CHANNEL))[1] == 0
    assert queue.SOCKET_TIMEOUT > 0
