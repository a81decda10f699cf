"""The jobs, by name: shells around actions."""

from __future__ import annotations

from typing import Any

from webapp.actions import attempts, trials
from webapp.actions.sweep import sweep as run_sweep
from worker.deliver import send
from worker.slots import Slots, execute


async def run_export(ctx: dict[Any, Any], export_id: str) -> None:
    """A wake-up: claims whichever export's turn it is, which need not be the one that was named."""
    slots: Slots = ctx["slots"]
    if export := await attempts.claim(ctx["resources"]):
        with slots.one_taken():
            await execute(ctx["resources"], ctx["children"], export)
    else:
        slots.look()


async def sweep(ctx: dict[Any, Any]) -> None:
    await run_sweep(ctx["resources"])


async def try_out(ctx: dict[Any, Any], sealed: str) -> str:
    request = trials.open_request(ctx["resources"], sealed)
    answer = await send(request.outgoing, time_limit=request.time_limit, guard=ctx["guard"])
    return trials.seal_answer(ctx["resources"], answer)
