"""The whole URL table: pages and API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from webapp.api import acks, datasets, events, exports, files, health, metrics
from webapp.api import callbacks as callback_api
from webapp.api import deliveries as delivery_api
from webapp.live.socket import events_socket
from webapp.pages import (
    callback_console,
    callback_forms,
    callback_secrets,
    callbacks,
    deliveries,
    docs,
    export_deliveries,
    inspector,
    live,
    monitor,
    notices,
    orders,
    recovery,
    session,
)
from webapp.pages import exports as export_pages
from webapp.pages.selection import selection
from webapp.web.render import static_folder

Handler = Callable[[Request], Awaitable[Response]]
EXPORT = "/exports/{export_id}"
ENDPOINT = "/callbacks/{endpoint_id}"
DELIVERY = "/callbacks/deliveries/{delivery_id}"
INSPECTOR = "/inspect/{token}"


def routes() -> list[BaseRoute]:
    return [
        Route("/", home),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/metrics", metrics.show, methods=["GET"]),
        *pages(),
        Mount("/api/v1", routes=api()),
        Mount("/static", CachedFiles(directory=static_folder())),
    ]


def pages() -> list[BaseRoute]:
    return [
        resource("/sign-in", GET=session.show_sign_in, POST=session.sign_in),
        resource("/sign-in/once/{token}", GET=session.show_sign_in_once, POST=session.sign_in_once),
        Route("/sign-out", session.sign_out, methods=["POST"]),
        Route("/docs", docs.show, methods=["GET"]),
        resource("/exports", GET=export_pages.index, POST=orders.create),
        Route("/exports/live", live.list_poll, methods=["GET"]),
        Route("/exports/stream", live.list_stream, methods=["GET"]),
        Route("/exports/selection", selection, methods=["POST"]),
        Route("/exports/new", orders.new, methods=["GET"]),
        Route("/exports/new/choices", orders.choices, methods=["GET", "POST"]),
        Route("/exports/new/preview", orders.preview, methods=["GET", "POST"]),
        Route("/notices/stream", notices.stream, methods=["GET"]),
        Route(EXPORT, export_pages.show, methods=["GET"]),
        Route(EXPORT + "/live", live.detail_poll, methods=["GET"]),
        Route(EXPORT + "/stream", live.detail_stream, methods=["GET"]),
        Route(EXPORT + "/cancellation", export_pages.cancel, methods=["POST"]),
        Route(EXPORT + "/retry", export_pages.retry, methods=["POST"]),
        Route(EXPORT + "/deletion", export_pages.delete, methods=["POST"]),
        Route(EXPORT + "/reminder", notices.remind, methods=["POST"]),
        resource("/inspect", GET=inspector.index, POST=inspector.create),
        resource(INSPECTOR, GET=inspector.show, POST=inspector.receive),
        Route(INSPECTOR + "/live", inspector.poll, methods=["GET"]),
        Route(INSPECTOR + "/stream", inspector.stream, methods=["GET"]),
        resource(INSPECTOR + "/settings", GET=inspector.settings, POST=inspector.change),
        Route(INSPECTOR + "/clearing", inspector.clear, methods=["POST"]),
        Route(INSPECTOR + "/deletion", inspector.delete, methods=["POST"]),
        Route(EXPORT + "/deliveries", export_deliveries.section, methods=["GET"]),
        *callback_pages(),
        Route("/monitor", monitor.show, methods=["GET"]),
        Route("/monitor/live", monitor.poll, methods=["GET"]),
        Route("/monitor/{table}.csv", monitor.table, methods=["GET"]),
    ]


def callback_pages() -> list[BaseRoute]:
    return [
        resource("/callbacks", GET=callbacks.index, POST=callback_forms.create),
        Route("/callbacks/live", callbacks.index_poll, methods=["GET"]),
        Route("/callbacks/stream", callbacks.index_stream, methods=["GET"]),
        Route("/callbacks/hosts", callbacks.set_hosts, methods=["POST"]),
        Route("/callbacks/sample", callback_console.sample, methods=["GET"]),
        Route("/callbacks/new", callback_forms.new, methods=["GET"]),
        Route("/callbacks/new/inspector", callback_forms.use_inspector, methods=["POST"]),
        Route("/callbacks/new/trial", callback_forms.trial, methods=["POST"]),
        Route("/callbacks/redeliveries", deliveries.redeliver_several, methods=["POST"]),
        Route("/callbacks/deliveries", deliveries.index, methods=["GET"]),
        Route("/callbacks/deliveries/live", deliveries.poll, methods=["GET"]),
        Route("/callbacks/deliveries/stream", deliveries.stream, methods=["GET"]),
        Route(DELIVERY, deliveries.show, methods=["GET"]),
        Route(DELIVERY + "/live", deliveries.show_poll, methods=["GET"]),
        Route(DELIVERY + "/stream", deliveries.show_stream, methods=["GET"]),
        Route(DELIVERY + "/redelivery", deliveries.redeliver, methods=["POST"]),
        Route(ENDPOINT, callbacks.show, methods=["GET"]),
        Route(ENDPOINT + "/live", callbacks.poll, methods=["GET"]),
        Route(ENDPOINT + "/stream", callbacks.stream, methods=["GET"]),
        resource(ENDPOINT + "/edit", GET=callback_forms.edit, POST=callback_forms.update),
        Route(ENDPOINT + "/edit/inspector", callback_forms.use_inspector, methods=["POST"]),
        Route(ENDPOINT + "/edit/trial", callback_forms.trial, methods=["POST"]),
        Route(ENDPOINT + "/trial", callbacks.trial, methods=["POST"]),
        Route(ENDPOINT + "/pause", callbacks.pause, methods=["POST"]),
        Route(ENDPOINT + "/resumption", callbacks.resume, methods=["POST"]),
        Route(ENDPOINT + "/rotation", callback_secrets.rotate, methods=["POST"]),
        Route(ENDPOINT + "/secret", callback_secrets.show, methods=["GET"]),
        Route(ENDPOINT + "/deletion", callbacks.delete, methods=["POST"]),
        resource(ENDPOINT + "/recovery", GET=recovery.show, POST=recovery.recover),
        Route(ENDPOINT + "/deliveries", deliveries.index, methods=["GET"]),
        Route(ENDPOINT + "/deliveries/live", deliveries.poll, methods=["GET"]),
        Route(ENDPOINT + "/deliveries/stream", deliveries.stream, methods=["GET"]),
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
        Route(EXPORT + "/reminder", acks.remind, methods=["POST"]),
        Route(EXPORT + "/attempts", exports.attempts_of, methods=["GET"]),
        Route(EXPORT + "/file", files.download, methods=["GET"]),
        Route(EXPORT + "/events", events.of_export, methods=["GET"]),
        Route("/events", events.index, methods=["GET"]),
        Route("/acknowledgements", acks.create, methods=["POST"]),
        WebSocketRoute("/ws", events_socket),
        *callbacks_of_api(),
    ]


def callbacks_of_api() -> list[BaseRoute]:
    return [
        resource("/callbacks", GET=callback_api.index, POST=callback_api.create),
        resource("/callbacks/hosts", GET=callback_api.hosts, PUT=callback_api.set_hosts),
        Route("/callbacks/test", callback_api.try_unsaved, methods=["POST"]),
        resource(ENDPOINT, GET=callback_api.show, PATCH=callback_api.edit, DELETE=callback_api.delete),
        Route(ENDPOINT + "/test", callback_api.try_saved, methods=["POST"]),
        Route(ENDPOINT + "/rotation", callback_api.rotate, methods=["POST"]),
        resource(ENDPOINT + "/recovery", GET=callback_api.recoverable, POST=callback_api.recover),
        Route(ENDPOINT + "/pause", callback_api.pause, methods=["POST"]),
        Route(ENDPOINT + "/resumption", callback_api.resume, methods=["POST"]),
        Route("/deliveries", delivery_api.index, methods=["GET"]),
        Route("/deliveries/redelivery", delivery_api.redeliver_matching, methods=["POST"]),
        Route("/deliveries/{delivery_id}", delivery_api.show, methods=["GET"]),
        Route("/deliveries/{delivery_id}/redelivery", delivery_api.redeliver, methods=["POST"]),
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
