"""Time limits of many tasks under one timer: as `asyncio.timeout` for each of them."""

from __future__ import annotations

import asyncio

import pytest
from patience import PATIENCE

from worker.deadlines import LOOKED_EVERY, Deadlines

SHORT = 0.1


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines()


async def hang(deadlines: Deadlines, seconds: float) -> str:
    with deadlines.within(seconds):
        await asyncio.Event().wait()
    return "came through"


async def test_what_takes_longer_is_cut_short(deadlines: Deadlines):
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hang(deadlines, SHORT), PATIENCE)
    assert loop.time() - began >= SHORT - LOOKED_EVERY / 10


async def test_what_ends_in_time_is_left_alone(deadlines: Deadlines):
    for _ in range(3):
        with deadlines.within(SHORT):
            await asyncio.sleep(0)
        await asyncio.sleep(SHORT + 2 * LOOKED_EVERY)


async def test_of_many_only_those_are_cut_short_whose_time_is_over(deadlines: Deadlines):
    brief = [asyncio.create_task(hang(deadlines, SHORT)) for _ in range(50)]
    long = [asyncio.create_task(hang(deadlines, PATIENCE)) for _ in range(50)]
    ended, left = await asyncio.wait([*brief, *long], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    ended, left = await asyncio.wait(brief, timeout=PATIENCE)
    assert [type(task.exception()) for task in ended] == 50 * [TimeoutError]
    assert not left
    assert not any(task.done() for task in long)
    for task in long:
        task.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*long, return_exceptions=True))


async def test_who_is_cancelled_by_others_is_cancelled(deadlines: Deadlines):
    task = asyncio.create_task(hang(deadlines, SHORT))
    await asyncio.sleep(SHORT / 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_cancelled_by_others_besides_is_cancelled(deadlines: Deadlines):
    async def ends_slowly() -> None:
        with deadlines.within(SHORT):
            try:
                await asyncio.Event().wait()
            finally:
                is_over.set()
                await asyncio.Event().wait()

    is_over = asyncio.Event()
    task = asyncio.create_task(ends_slowly())
    await asyncio.wait_for(is_over.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_shorter_limit_around_it_is_its_own(deadlines: Deadlines):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT) as around:
            await hang(deadlines, PATIENCE)
    assert around.expired()


async def test_after_it_the_task_goes_on(deadlines: Deadlines):
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await hang(deadlines, 0.0)
        await asyncio.sleep(0.01)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


def test_it_works_in_one_loop_after_the_other(deadlines: Deadlines):
    async def cut_short() -> None:
        with pytest.raises(TimeoutError):
            await hang(deadlines, SHORT)

    for _ in range(3):
        asyncio.run(asyncio.wait_for(cut_short(), PATIENCE))
