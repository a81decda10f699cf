"""What Redis and the copies of one process keep of status answers, and when they let go of it."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace

import msgspec
import pytest
from factories import new_export
from patience import PATIENCE

from webapp import bus, queue, status_cache
from webapp.actions import polls, statuses
from webapp.domain.access import Role, Viewer
from webapp.domain.ids import new_id
from webapp.live.hub import Hub
from webapp.resources import Resources
from webapp.status_cache import LIFETIME, MOST_COPIES, Answer, Copies, StatusCache

ANN = Viewer("usr_a", "ann", Role.USER)


def answer(version: int, moved: int = 0, *, is_waiting: bool = False) -> Answer:
    return Answer("usr_a", version, moved, f'"{version}-{moved}"', 1, b"{}", is_waiting)


async def kept(resources: Resources, export_id: str) -> tuple[int, int] | None:
    found = await status_cache.read(resources.redis, export_id)
    return (found[0].version, found[0].moved) if found else None


# In Redis


async def test_it_is_kept_for_its_time_only(resources: Resources) -> None:
    export_id = new_id("exp")
    assert await kept(resources, export_id) is None
    await status_cache.keep(resources.redis, export_id, 3, answer(3, 7))
    found = await status_cache.read(resources.redis, export_id)
    assert found is not None
    assert found[0] == answer(3, 7)
    assert 0 < found[1] <= LIFETIME
    await asyncio.sleep(LIFETIME + 0.05)
    assert await kept(resources, export_id) is None


@pytest.mark.parametrize("late", [(2, 0), (2, 99), (3, 4)])
async def test_nothing_is_written_over_what_is_newer(resources: Resources, late: tuple[int, int]) -> None:
    export_id = new_id("exp")
    await status_cache.keep(resources.redis, export_id, 3, answer(3, 5))
    await status_cache.keep(resources.redis, export_id, late[0], answer(*late))
    assert await kept(resources, export_id) == (3, 5)
    for newer in ((3, 5), (3, 6), (4, 0), (10, 0)):
        await status_cache.keep(resources.redis, export_id, newer[0], answer(*newer))
        assert await kept(resources, export_id) == newer


async def test_what_ran_out_is_not_replaced_by_what_is_older(resources: Resources) -> None:
    export_id = new_id("exp")
    await status_cache.keep(resources.redis, export_id, 3, answer(3))
    await asyncio.sleep(LIFETIME + 0.05)
    await status_cache.keep(resources.redis, export_id, 2, answer(2))
    assert await kept(resources, export_id) is None


async def test_a_version_without_an_answer_ends_older_ones(resources: Resources) -> None:
    export_id = new_id("exp")
    await status_cache.keep(resources.redis, export_id, 3, answer(3))
    await status_cache.keep(resources.redis, export_id, 4, None)
    assert await kept(resources, export_id) is None
    await status_cache.keep(resources.redis, export_id, 3, answer(3))
    assert await kept(resources, export_id) is None


async def test_it_starts_afresh_when_redis_was_emptied(resources: Resources) -> None:
    export_id = new_id("exp")
    await status_cache.keep(resources.redis, export_id, 3, answer(3))
    await resources.redis.flushall()
    assert await kept(resources, export_id) is None
    await status_cache.keep(resources.redis, export_id, 3, answer(3))
    assert await kept(resources, export_id) == (3, 0)


@pytest.mark.parametrize("content", [b"x", b"\x93\x01\x02\x03", msgspec.msgpack.encode(["a"]), b"\xff" * 100])
async def test_what_another_release_wrote_is_passed_over(resources: Resources, content: bytes) -> None:
    export_id = new_id("exp")
    await resources.redis.set(status_cache._keys(export_id)[0], content, px=1000)
    assert await kept(resources, export_id) is None


async def test_large_progress_is_compared_as_numbers(resources: Resources) -> None:
    export_id = new_id("exp")
    for moved in (9, 10, 10**15):
        await status_cache.keep(resources.redis, export_id, 3, answer(3, moved))
        assert await kept(resources, export_id) == (3, moved)
    await status_cache.keep(resources.redis, export_id, 3, answer(3, 10**15 - 1))
    assert await kept(resources, export_id) == (3, 10**15)


# Copies


def test_a_copy_is_used_for_its_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("webapp.status_cache.time.monotonic", lambda: now)
    copies = Copies[int]()
    copies.open("a").fill(1)
    copies.open("b").fill(2, 0.25)
    copies.open("c").fill(3, 60)
    now += 0.2
    assert [copies.get(key) is not None for key in "abcx"] == [True, True, True, False]
    now += 0.1
    assert [copies.get(key) is not None for key in "abc"] == [True, False, True]
    now += LIFETIME
    assert [copies.get(key) is not None for key in "abc"] == [False, False, False]


def test_its_time_begins_before_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("webapp.status_cache.time.monotonic", lambda: now)
    copies = Copies[int]()
    slot = copies.open("a")
    now += LIFETIME
    slot.fill(1)
    assert copies.get("a") is None


def test_what_was_read_before_a_hint_is_not_kept() -> None:
    copies = Copies[int]()
    slot = copies.open("a")
    copies.drop("a")
    slot.fill(1)
    assert copies.get("a") is None
    slot = copies.open("a")
    copies.clear()
    slot.fill(1)
    assert copies.get("a") is None


def test_who_reads_at_once_shares_the_slot() -> None:
    copies = Copies[int]()
    first, second = copies.open("a"), copies.open("a")
    first.fill(1)
    assert copies.get("a") is second


def test_a_hint_tells_what_is_too_old() -> None:
    copies = Copies[int]()
    copies.drop("a", 5)
    copies.drop("a", 0)
    copies.drop("a", 4)
    assert copies.open("a").floor == 5
    assert copies.open("b").floor == 0


def test_the_number_of_copies_has_a_bound() -> None:
    copies = Copies[int]()
    for number in range(3 * MOST_COPIES):
        copies.open(str(number)).fill(number)
    assert len(copies._slots) <= MOST_COPIES


def test_a_place_in_the_queue_is_forgotten_when_anything_changes() -> None:
    cache = StatusCache(usable_from=0)
    cache.answers.open("waits").fill(answer(2, is_waiting=True))
    cache.answers.open("runs").fill(answer(3))
    cache.hear("progress", 0)
    assert cache.answer("waits") == answer(2, is_waiting=True)
    slot = cache.answers.open("reads")
    cache.hear("another", 4)
    slot.fill(answer(2, is_waiting=True))
    assert cache.answer("waits") is None
    assert cache.answer("reads") is None
    assert cache.answer("runs") == answer(3)


def test_what_happens_to_a_person_ends_all_known_tokens() -> None:
    cache = StatusCache(usable_from=0)
    cache.viewers.open("token").fill(ANN)
    cache.hear("exp_1", 1)
    assert cache.viewers.get("token")
    cache.hear("", 0)
    assert cache.viewers.get("token") is None


async def test_without_a_subscription_nothing_is_kept(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = resources.statuses
    assert not cache.is_usable
    cache.hear("exp_1", 1)
    assert not cache.answers._slots
    async with Hub(resources.redis, cache).running() as hub:
        await until(lambda: hub.is_connected)
        assert not cache.is_usable, "what is in Redis may be from before"
        assert cache.usable_from <= time.monotonic() + LIFETIME
        await until(lambda: cache.is_usable)
        cache.answers.open("exp_1").fill(answer(1))
        cache.viewers.open("token").fill(ANN)
        monkeypatch.setattr("webapp.bus.listen", refused)
        await resources.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await until(lambda: not hub.is_connected)
        assert (cache.usable_from, cache.answer("exp_1"), cache.viewers.get("token")) == (math.inf, None, None)
        monkeypatch.undo()
        await until(lambda: cache.is_usable)
    assert cache.usable_from == math.inf


async def test_the_hub_drops_copies_before_it_wakes_readers(resources: Resources) -> None:
    cache = resources.statuses
    async with Hub(resources.redis, cache).running() as hub:
        await until(lambda: hub.is_connected)
        cache.answers.open("exp_1").fill(answer(1))
        cache.viewers.open("token").fill(ANN)
        with hub.reader(owner="usr_a") as reader:
            await bus.publish(resources.redis, bus.Hint("exp_1", "usr_a", 2))
            await reader.changes(2)
            assert cache.answers.get("exp_1") is None
            assert cache.viewers.get("token")
            await bus.publish(resources.redis, bus.Hint("", "usr_a", 0))
            await reader.changes(2)
            assert cache.viewers.get("token") is None


def refused(*_args: object) -> None:
    raise ConnectionError("refused")


async def until(is_so: object) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # type: ignore[operator]
            await asyncio.sleep(0.01)


# What a client knows


@pytest.mark.parametrize(
    ("known", "is_enough"),
    [
        ({""}, True), ({"*"}, True), ({'"3-5"'}, True), ({'"2"'}, True), ({'"2-ffff"', '"1"'}, True),
        (set[str](), True),
        ({'"4"'}, False), ({'"3"'}, False), ({'"3-6"'}, False), ({'"2"', '"4-0"'}, False), ({'"other"'}, False),
        ({'""'}, False), ({'"-1"'}, False), ({'"٣"'}, False), ({'"' + "9" * 5000 + '"'}, False),
        ({'"4"', '"3-5"'}, True),
    ],
)  # fmt: skip
def test_what_is_kept_serves_only_who_knows_no_more(known: set[str], is_enough: bool) -> None:
    assert polls.suffices(answer(3, 5), known) is is_enough


async def test_a_redis_that_hangs_is_not_waited_for(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_args: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(resources.redis, "eval", hang)
    with pytest.raises(queue.QUEUE_ERRORS):
        await status_cache.read(resources.redis, "exp_1")
    export = replace(new_export("usr_a", await resources.store.now()), version=2)
    await statuses.changed(resources, export)
