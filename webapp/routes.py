"""The whole URL table: pages and API."""

from __future__ import annotations

import os

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from webapp.api import datasets, events, exports, files, health
from webapp.pages import exports as export_pages
from webapp.pages import live, orders, session
from webapp.web.render import static_folder

EXPORT = "/exports/{export_id}"


def routes() -> list[BaseRoute]:
    return [
        Route("/", home),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        *pages(),
        Mount("/api/v1", routes=api()),
        Mount("/static", CachedFiles(directory=static_folder())),
    ]


def pages() -> list[BaseRoute]:
    return [
        Route("/sign-in", session.show_sign_in, methods=["GET"]),
        Route("/sign-in", session.sign_in, methods=["POST"]),
        Route("/sign-in/once/{token}", session.show_sign_in_once, methods=["GET"]),
        Route("/sign-in/once/{token}", session.sign_in_once, methods=["POST"]),
        Route("/sign-out", session.sign_out, methods=["POST"]),
        Route("/exports", export_pages.index, methods=["GET"]),
        Route("/exports", orders.create, methods=["POST"]),
        Route("/exports/live", live.list_poll, methods=["GET"]),
        Route("/exports/stream", live.list_stream, methods=["GET"]),
        Route("/exports/selection", export_pages.selection, methods=["POST"]),
        Route("/exports/new", orders.new, methods=["GET"]),
        Route("/exports/new/choices", orders.choices, methods=["GET", "POST"]),
        Route("/exports/new/preview", orders.preview, methods=["GET", "POST"]),
        Route(EXPORT, export_pages.show, methods=["GET"]),
        Route(EXPORT + "/live", live.detail_poll, methods=["GET"]),
        Route(EXPORT + "/stream", live.detail_stream, methods=["GET"]),
        Route(EXPORT + "/cancellation", export_pages.cancel, methods=["POST"]),
        Route(EXPORT + "/retry", export_pages.retry, methods=["POST"]),
        Route(EXPORT + "/deletion", export_pages.delete, methods=["POST"]),
    ]


def api() -> list[BaseRoute]:
    return [
        Route("/datasets", datasets.index, methods=["GET"]),
        Route("/datasets/{name}", datasets.show, methods=["GET"]),
        Route("/datasets/{name}/choices/{parameter}", datasets.choices, methods=["GET"]),
        Route("/datasets/{name}/preview", datasets.preview, methods=["POST"]),
        Route("/exports", exports.index, methods=["GET"]),
        Route("/exports", exports.order, methods=["POST"]),
        Route(EXPORT, exports.show, methods=["GET"]),
        Route(EXPORT, exports.delete, methods=["DELETE"]),
        Route(EXPORT + "/cancellation", exports.cancel, methods=["POST"]),
        Route(EXPORT + "/retry", exports.retry, methods=["POST"]),
        Route(EXPORT + "/file", files.download, methods=["GET"]),
        Route(EXPORT + "/events", events.of_export, methods=["GET"]),
        Route("/events", events.index, methods=["GET"]),
    ]


async def home(request: Request) -> Response:
    return RedirectResponse("/exports", status_code=303)


class CachedFiles(StaticFiles):
    """Files whose address carries a hash of their content are kept for a year. The build's own are not served."""

    SERVED = (".css", ".js", ".svg", ".png", ".ico", ".webmanifest")

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return super().lookup_path(path) if path.endswith(self.SERVED) else ("", None)

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response
