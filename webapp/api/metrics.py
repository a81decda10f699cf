"""`/metrics`, for Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from webapp.monitoring import metrics
from webapp.web.context import hub, resources


async def show(request: Request) -> Response:
    """Counts and times alone: nothing of who ordered what."""
    snapshot = await metrics.take(resources(request), hub(request).connections)
    return Response(metrics.exposition(snapshot), headers={"Content-Type": metrics.CONTENT_TYPE})
