"""The JSON API of datasets: what can be ordered, with which parameters, and its first rows."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import datasets
from webapp.actions.estimates import estimate
from webapp.api.exports import json_response
from webapp.api.requests import PreviewBody, query_limit, query_name, read_body
from webapp.datasets.declaration import Dataset
from webapp.datasets.schema import json_schema
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.formats import API_DEFAULTS, Options, parse_options
from webapp.domain.sentences import say
from webapp.web.context import resources, viewer


async def index(request: Request) -> Response:
    found = resources(request).catalog.datasets_for(viewer(request))
    return json_response({"items": [describe(request, dataset) for dataset in found], "next_cursor": None})


async def show(request: Request) -> Response:
    dataset = datasets.get(resources(request), viewer(request), request.path_params["name"])
    return json_response(describe(request, dataset))


async def preview(request: Request) -> Response:
    """The first rows for these parameters, how many there are, and what the file will probably come to."""
    dataset = datasets.get(resources(request), viewer(request), request.path_params["name"])
    body = await read_body(request, PreviewBody)
    format, options = _chosen(dataset, body)
    desk, zone, columns = resources(request), body.options.get("timezone"), options.columns
    found = await datasets.preview(desk, dataset, body.params, zone=zone, columns=columns)
    expected = await estimate(
        desk, dataset, found.estimate, format=format, compression=options.compression, columns=columns
    )
    return json_response(
        {
            "columns": [{"name": column.name, "kind": column.kind.value} for column in found.columns],
            "rows": await asyncio.to_thread(lambda: [[_json(value) for value in row] for row in found.rows]),
            "truncated": found.truncated,
            "rows_estimate": found.estimate.count if found.estimate else None,
            "rows_estimate_is_exact": found.estimate is not None and found.estimate.is_exact,
            "expected_bytes": expected.bytes,
            "expected_seconds": None if expected.seconds is None else round(expected.seconds, 1),
            "notices": [{"code": notice.code, "message": str(notice.message)} for notice in expected.notices],
        }
    )


async def choices(request: Request) -> Response:
    """What a parameter may be now, the best fits for `q` first."""
    dataset = datasets.get(resources(request), viewer(request), request.path_params["name"])
    name, text = request.path_params["parameter"], query_name(request, "q") or ""
    found = await datasets.find_choices(resources(request), dataset, name, text, limit=query_limit(request))
    items = [{"value": choice.value, "label": choice.label} for choice in found.items]
    return json_response({"items": items, "next_cursor": None})


def _chosen(dataset: Dataset, body: PreviewBody) -> tuple[str, Options]:
    """Raises Invalid."""
    format = body.format or dataset.formats[0]
    if format not in dataset.formats:
        raise Invalid(
            [FieldError("format", say("Choose one of these formats: {choices}.", choices=", ".join(dataset.formats)))]
        )
    return format, parse_options(body.options, format, defaults=API_DEFAULTS)


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
            "memory_mib": dataset.memory_mib,
        },
    }


def _json(value: Any) -> Any:
    """A cell as JSON can hold it; floats that are no numbers become null, as in JSON Lines."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
