"""`/monitor/alerts.yml` and `/monitor/grafana.json`, for admins."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from webapp.monitoring.files import FILES, content
from webapp.web.context import admin


async def rules(request: Request) -> Response:
    return _attached(request, "alerts", "application/yaml")


async def dashboard(request: Request) -> Response:
    return _attached(request, "grafana", "application/json")


def _attached(request: Request, name: str, media_type: str) -> Response:
    admin(request)
    headers = {"Content-Disposition": f'attachment; filename="exportdesk-{FILES[name]}"'}
    return Response(content(name), media_type=media_type, headers=headers)
