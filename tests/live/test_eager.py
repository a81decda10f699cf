"""Coroutines that are begun at once: they end as they would in a task, whatever they wait for."""

from __future__ import annotations

import asyncio

import pytest

from webapp.live.eager import begin


async def test_what_need_not_wait_is_over_at_once() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("all")

    assert begin(work()) is None
    assert done == ["all"]


async def test_what_goes_wrong_at_once_is_raised() -> None:
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        begin(work())


async def test_a_task_has_the_rest_of_what_waits() -> None:
    done: list[str] = []
    first, second = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def work() -> None:
        done.append("begun")
        await first.wait()
        done.append(await second)
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        done.append("over")

    task = begin(work())
    assert task is not None
    assert done == ["begun"]
    first.set()
    await asyncio.sleep(0)
    second.set_result("second")
    await task
    assert done == ["begun", "second", "over"]


async def test_what_goes_wrong_later_is_the_tasks() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await failing

    task = begin(work())
    assert task is not None
    failing.set_exception(ConnectionError("later"))
    with pytest.raises(ConnectionError, match="later"):
        await task


async def test_it_can_be_cancelled_and_tidies_up() -> None:
    tidied: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            tidied.append(True)

    task = begin(work())
    assert task is not None
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tidied == [True]
