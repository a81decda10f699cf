"""The JSON API of datasets: what can be ordered, with which parameters, and its first rows."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import datasets
from webapp.api.exports import json_response
from webapp.api.requests import PreviewBody, read_body
from webapp.datasets.declaration import Dataset
from webapp.datasets.schema import json_schema
from webapp.web.context import resources, viewer


async def index(request: Request) -> Response:
    found = resources(request).catalog.datasets_for(viewer(request).role)
    return json_response({"items": [describe(request, dataset) for dataset in found], "next_cursor": None})


async def show(request: Request) -> Response:
    dataset = datasets.get(resources(request), viewer(request), request.path_params["name"])
    return json_response(describe(request, dataset))


async def preview(request: Request) -> Response:
    """The first rows for these parameters, and how many there are if that can be counted quickly."""
    dataset = datasets.get(resources(request), viewer(request), request.path_params["name"])
    body = await read_body(request, PreviewBody)
    found = await datasets.preview(resources(request), dataset, body.params)
    return json_response(
        {
            "columns": [{"name": column.name, "kind": column.kind.value} for column in found.columns],
            "rows": await asyncio.to_thread(lambda: [[_json(value) for value in row] for row in found.rows]),
            "truncated": found.truncated,
            "rows_estimate": found.rows_estimate,
        }
    )


def describe(request: Request, dataset: Dataset) -> dict[str, Any]:
    settings = resources(request).settings
    limit = dataset.execution_limit or settings.execution_limit
    return {
        "name": dataset.name,
        "title": dataset.title,
        "description": dataset.description,
        "parameters": json_schema(dataset),
        "formats": list(dataset.formats),
        "limits": {
            "rows": dataset.row_limit,
            "bytes": dataset.max_bytes,
            "execution_seconds": round(limit.total_seconds()),
        },
    }


def _json(value: Any) -> Any:
    """A cell as JSON can hold it; floats that are no numbers become null, as in JSON Lines."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
