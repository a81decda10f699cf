"""What an order is expected to come to, before it is ordered."""

from __future__ import annotations

from collections.abc import Sequence

from webapp.datasets.declaration import Dataset
from webapp.domain import limits
from webapp.domain.estimates import Expectation, Limits, Rows, expect
from webapp.resources import Resources
from webapp.store import past_runs


async def estimate(
    resources: Resources,
    dataset: Dataset,
    count: Rows | None,
    *,
    format: str,
    compression: str = "none",
    columns: Sequence[str] = (),
) -> Expectation:
    """From the last runs of the same dataset in the same format."""
    async with resources.store.connection():
        past = await past_runs.newest(resources.store, dataset.name, format, limit=limits.PAST_RUNS)
    allowed = Limits(dataset.row_limit, dataset.max_bytes)
    return expect(count, past, format=format, compression=compression, columns=columns, allowed=allowed)
