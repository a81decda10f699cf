"""What a new admin does first, and what of it is done: read from the store and the catalog, never ticked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from webapp.datasets.catalog import demo_path
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.store import app_settings, endpoints, exports, grants

DISMISSED = "getting_started_dismissed:"
"""The name of a person's row, followed by the id."""


class Step(StrEnum):
    SIGN_IN = "sign-in"
    DEMO = "demo"
    SOURCE = "source"
    DATASET = "dataset"
    GRANT = "grant"
    CALLBACK = "callback"


@dataclass(frozen=True, slots=True)
class StepState:
    step: Step
    is_done: bool


async def steps(resources: Resources, viewer: Viewer) -> Sequence[StepState]:
    """Nothing for who is no admin, who has sent it away, and once all are done."""
    if not viewer.is_admin:
        return ()
    store, catalog = resources.store, resources.catalog
    demo = str(demo_path(resources.settings.data_dir))
    own = {name for name, source in catalog.sources.items() if source.url != f"sqlite:///{demo}"}
    written = {name for name, dataset in catalog.datasets.items() if dataset.source in own}
    async with store.connection():
        if await app_settings.get(store, DISMISSED + viewer.id):
            return ()
        done = {
            Step.SIGN_IN: True,
            Step.DEMO: await exports.exists_any(store, viewer.id),
            Step.SOURCE: bool(own),
            Step.DATASET: bool(written),
            Step.GRANT: bool(written & await grants.granted(store)),
            Step.CALLBACK: await endpoints.count_registered(store) > 0,
        }
    return () if all(done.values()) else [StepState(step, is_done) for step, is_done in done.items()]


async def dismiss(resources: Resources, viewer: Viewer) -> None:
    async with resources.store.transaction():
        await app_settings.put(resources.store, DISMISSED + viewer.id, value=True, at=await resources.store.now())
