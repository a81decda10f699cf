"""What a source answers: all of its rows, or why there are none."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.datasets.sources import open_rows
from webapp.domain.errors import AttemptFailed


def rows(url: str, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    with open_rows(url, sql, params) as reader:
        return [row for batch in reader.batches() for row in batch]


def failure(url: str, sql: str, **params: Any) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        rows(url, sql, **params)
    return caught.value
