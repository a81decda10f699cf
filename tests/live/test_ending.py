"""A cancellation that gets lost on its way is sent again."""

from __future__ import annotations

import asyncio

import pytest
from patience import PATIENCE

from webapp import open_streams
from webapp.app import build_app, serving
from webapp.ending import end, go_on
from webapp.resources import Resources


async def deaf(times: int) -> None:
    """Does not notice that it is cancelled, so many times."""
    for _ in range(times):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
    await asyncio.sleep(60)


@pytest.mark.parametrize("times", [0, 1, 3])
async def test_it_ends_however_often_it_did_not_notice(times: int) -> None:
    task = asyncio.create_task(deaf(times))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await end(task, again=0.01)
    assert task.cancelled()


async def test_what_it_does_when_it_is_cancelled_is_waited_for() -> None:
    async def tidy_up() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
        return "never"

    tasks = [asyncio.create_task(tidy_up()), asyncio.create_task(asyncio.sleep(0))]
    await asyncio.wait(tasks[1:])
    await end(*tasks, again=1)
    assert [task.cancelled() for task in tasks] == [True, False]
    await end()


async def test_a_task_goes_on_only_while_nobody_cancelled_it() -> None:
    reached: list[str] = []

    async def work() -> None:
        go_on()
        reached.append("first")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
        go_on()
        reached.append("second")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), reached) == (True, ["first"])


async def test_an_application_ends_whose_broker_lost_the_cancellation(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, lost = asyncio.Event(), asyncio.Event()

    async def tell(*_: object) -> None:
        asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.set()

    monkeypatch.setattr(open_streams, "tell", tell)
    async with asyncio.timeout(PATIENCE):
        async with serving(build_app(), resources):
            await asked.wait()
    assert lost.is_set()
