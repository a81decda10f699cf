"""The whole URL table: pages and API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from webapp.api import datasets, events, exports, files, health
from webapp.pages import exports as export_pages
from webapp.pages import live, orders, session
from webapp.pages.selection import selection
from webapp.web.render import static_folder

Handler = Callable[[Request], Awaitable[Response]]
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
        resource("/sign-in", GET=session.show_sign_in, POST=session.sign_in),
        resource("/sign-in/once/{token}", GET=session.show_sign_in_once, POST=session.sign_in_once),
        Route("/sign-out", session.sign_out, methods=["POST"]),
        resource("/exports", GET=export_pages.index, POST=orders.create),
        Route("/exports/live", live.list_poll, methods=["GET"]),
        Route("/exports/stream", live.list_stream, methods=["GET"]),
        Route("/exports/selection", selection, methods=["POST"]),
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
        resource("/exports", GET=exports.index, POST=exports.order),
        resource(EXPORT, GET=exports.show, DELETE=exports.delete),
        Route(EXPORT + "/cancellation", exports.cancel, methods=["POST"]),
        Route(EXPORT + "/retry", exports.retry, methods=["POST"]),
        Route(EXPORT + "/file", files.download, methods=["GET"]),
        Route(EXPORT + "/events", events.of_export, methods=["GET"]),
        Route("/events", events.index, methods=["GET"]),
    ]


def resource(path: str, **handlers: Handler) -> Route:
    """One address with a handler for each method, so that a 405 names all of them."""

    async def dispatch(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](request)

    return Route(path, dispatch, methods=list(handlers), name=path)


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
