"""The jobs, by name: shells around actions."""

from __future__ import annotations

from typing import Any

from webapp.actions import attempts
from webapp.actions.sweep import sweep as run_sweep
from worker.supervise import run_attempt


async def run_export(ctx: dict[Any, Any], export_id: str) -> None:
    """A wake-up: claims whichever export's turn it is, which need not be the one that was named."""
    if export := await attempts.claim(ctx["resources"]):
        await run_attempt(ctx["resources"], ctx["children"], export)


async def sweep(ctx: dict[Any, Any]) -> None:
    await run_sweep(ctx["resources"])
