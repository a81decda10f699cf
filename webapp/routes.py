"""The whole URL table: pages and API."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from webapp.api import acks, datasets, events, exports, files, health, metrics, openapi, tokens
from webapp.api import audit as audit_api
from webapp.api import callbacks as callback_api
from webapp.api import deliveries as delivery_api
from webapp.api import grants as grant_api
from webapp.api import groups as group_api
from webapp.api import saved_orders as saved_order_api
from webapp.api import schedules as schedule_api
from webapp.api import shares as share_api
from webapp.api import users as user_api
from webapp.api import workers as worker_api
from webapp.live.socket import events_socket
from webapp.pages import (
    account,
    account_email,
    admin_dataset_form,
    admin_groups,
    admin_sources,
    admin_users,
    audit,
    callback_console,
    callback_forms,
    callback_secrets,
    callbacks,
    deliveries,
    docs,
    export_deliveries,
    getting_started,
    inspector,
    language,
    live,
    monitor,
    monitor_files,
    monitor_list,
    monitor_workers,
    notices,
    openid,
    orders,
    recovery,
    reference,
    saved_orders,
    schedules,
    session,
    shares,
)
from webapp.pages import exports as export_pages
from webapp.pages.selection import selection
from webapp.web.render import static_folder

mimetypes.add_type("text/javascript", ".js")  # what it is called depends on the host, and so would its compression

Handler = Callable[[Request], Awaitable[Response]]
EXPORT = "/exports/{export_id}"
ENDPOINT = "/callbacks/{endpoint_id}"
DELIVERY = "/callbacks/deliveries/{delivery_id}"
INSPECTOR = "/inspect/{token}"
USER = "/admin/users/{user_id}"
GROUP = "/admin/groups/{group_id}"
DATASET = "/admin/datasets/{name}"
SAVED_ORDER = "/saved-orders/{saved_order_id}"
QUEUE_PAGE = "/monitor/queues/{queue}"
WORKER_PAGE = "/monitor/workers/{worker_id}"


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
        Route("/sign-in/openid", openid.depart, methods=["GET"]),
        Route("/sign-in/openid/callback", openid.arrive, methods=["GET"]),
        Route("/sign-out", session.sign_out, methods=["POST"]),
        Route("/language", language.choose, methods=["POST"]),
        Route("/words/{tag}.js", language.words, methods=["GET"]),
        *account_pages(),
        *admin_pages(),
        Route("/docs", docs.show, methods=["GET"]),
        Route("/docs/api", reference.shown(lambda base_url: openapi.openapi(base_url).content), methods=["GET"]),
        resource("/exports", GET=export_pages.index, POST=orders.create),
        Route("/exports/live", live.list_poll, methods=["GET"]),
        Route("/exports/stream", live.list_stream, methods=["GET"]),
        Route("/exports/selection", selection, methods=["POST"]),
        Route("/exports/new", orders.new, methods=["GET"]),
        Route("/exports/new/choices", orders.choices, methods=["GET", "POST"]),
        Route("/exports/new/columns", orders.columns, methods=["GET", "POST"]),
        Route("/getting-started/dismissal", getting_started.dismiss, methods=["POST"]),
        Route("/exports/new/preview", orders.preview, methods=["GET", "POST"]),
        Route("/notices/stream", notices.stream, methods=["GET"]),
        Route(EXPORT, export_pages.show, methods=["GET"]),
        Route(EXPORT + "/live", live.detail_poll, methods=["GET"]),
        Route(EXPORT + "/stream", live.detail_stream, methods=["GET"]),
        Route(EXPORT + "/cancellation", export_pages.cancel, methods=["POST"]),
        Route(EXPORT + "/retry", export_pages.retry, methods=["POST"]),
        Route(EXPORT + "/deletion", export_pages.delete, methods=["POST"]),
        Route(EXPORT + "/annotation", export_pages.annotate, methods=["POST"]),
        Route(EXPORT + "/notification", export_pages.notify, methods=["POST"]),
        Route(EXPORT + "/shares", shares.share, methods=["POST"]),
        Route(EXPORT + "/shares/people", shares.people, methods=["GET"]),
        Route(EXPORT + "/shares/withdrawal", shares.withdraw, methods=["POST"]),
        Route(EXPORT + "/reminder", notices.remind, methods=["POST"]),
        *saved_order_pages(),
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
        Route("/monitor/stream", monitor.stream, methods=["GET"]),
        Route("/monitor/counted", monitor_list.show, methods=["GET"]),
        Route("/monitor/alerts.yml", monitor_files.rules, methods=["GET"]),
        Route("/monitor/grafana.json", monitor_files.dashboard, methods=["GET"]),
        Route("/monitor/{table}.csv", monitor.table, methods=["GET"]),
        Route(QUEUE_PAGE + "/pause", monitor_workers.pause, methods=["POST"]),
        Route(QUEUE_PAGE + "/resumption", monitor_workers.resume, methods=["POST"]),
        Route(WORKER_PAGE + "/drain", monitor_workers.drain, methods=["POST"]),
        Route(WORKER_PAGE + "/drain/cancellation", monitor_workers.keep, methods=["POST"]),
    ]


def saved_order_pages() -> list[BaseRoute]:
    return [
        resource("/saved-orders", GET=saved_orders.index, POST=saved_orders.create),
        resource("/saved-orders/new", GET=saved_orders.new, POST=saved_orders.new),
        Route(SAVED_ORDER + "/edit", saved_orders.edit, methods=["POST"]),
        Route(SAVED_ORDER + "/name", saved_orders.rename, methods=["POST"]),
        Route(SAVED_ORDER + "/exports", saved_orders.order, methods=["POST"]),
        Route(SAVED_ORDER + "/deletion", saved_orders.delete, methods=["POST"]),
        Route(SAVED_ORDER + "/restoration", saved_orders.restore, methods=["POST"]),
        resource(SAVED_ORDER + "/schedule", GET=schedules.show, POST=schedules.save),
        Route(SAVED_ORDER + "/schedule/pause", schedules.pause, methods=["POST"]),
        Route(SAVED_ORDER + "/schedule/resumption", schedules.resume, methods=["POST"]),
        Route(SAVED_ORDER + "/schedule/removal", schedules.remove, methods=["POST"]),
    ]


def account_pages() -> list[BaseRoute]:
    return [
        Route("/account", account.show, methods=["GET"]),
        Route("/account/password", account.set_password, methods=["POST"]),
        Route("/account/preferences", account.set_preferences, methods=["POST"]),
        Route("/account/sessions", account.end_session, methods=["POST"]),
        Route("/account/email", account_email.ask, methods=["POST"]),
        Route("/account/email/cancellation", account_email.stop_asking, methods=["POST"]),
        Route("/account/email/choice", account_email.choose, methods=["POST"]),
        Route("/account/email/removal", account_email.remove, methods=["POST"]),
        resource("/account/email/{token}", GET=account_email.show_confirmation, POST=account_email.confirm),
        Route("/account/tokens", account.create_token, methods=["POST"]),
        Route("/account/tokens/{token_id}/revocation", account.revoke_token, methods=["POST"]),
    ]


def admin_pages() -> list[BaseRoute]:
    return [
        resource("/admin/users", GET=admin_users.index, POST=admin_users.invite),
        Route(USER, admin_users.show, methods=["GET"]),
        Route(USER + "/role", admin_users.set_role, methods=["POST"]),
        Route(USER + "/groups", admin_users.set_groups, methods=["POST"]),
        Route(USER + "/reset", admin_users.reset, methods=["POST"]),
        Route(USER + "/disabling", admin_users.disable, methods=["POST"]),
        Route(USER + "/enabling", admin_users.enable, methods=["POST"]),
        Route(USER + "/deletion", admin_users.delete, methods=["POST"]),
        resource("/admin/groups", GET=admin_groups.index, POST=admin_groups.create),
        Route(GROUP, admin_groups.show, methods=["GET"]),
        Route(GROUP + "/name", admin_groups.rename, methods=["POST"]),
        Route(GROUP + "/members", admin_groups.change_members, methods=["POST"]),
        Route(GROUP + "/deletion", admin_groups.delete, methods=["POST"]),
        resource("/admin/sources", GET=admin_sources.index, POST=admin_sources.create),
        Route("/admin/sources/new", admin_sources.new, methods=["GET"]),
        resource("/admin/sources/{source}/edit", GET=admin_sources.edit, POST=admin_sources.change),
        Route("/admin/sources/{source}/deletion", admin_sources.delete, methods=["POST"]),
        Route("/admin/datasets", admin_groups.datasets, methods=["GET"]),
        resource("/admin/datasets/new", GET=admin_dataset_form.new, POST=admin_dataset_form.create),
        Route("/admin/datasets/new/draft", admin_dataset_form.look, methods=["POST"]),
        resource(DATASET + "/edit", GET=admin_dataset_form.edit, POST=admin_dataset_form.change),
        Route(DATASET + "/edit/draft", admin_dataset_form.look, methods=["POST"]),
        Route(DATASET, admin_groups.dataset, methods=["GET"]),
        Route(DATASET + "/deletion", admin_groups.delete_dataset, methods=["POST"]),
        Route(DATASET + "/grants", admin_groups.grant, methods=["POST"]),
        Route(DATASET + "/withdrawal", admin_groups.withdraw, methods=["POST"]),
        Route(DATASET + "/opening", admin_groups.open_to_all, methods=["POST"]),
        Route("/admin/tokens", admin_users.tokens, methods=["GET"]),
        Route("/admin/tokens/{token_id}/revocation", admin_users.revoke_token, methods=["POST"]),
        Route("/admin/audit", audit.show, methods=["GET"]),
        Route("/admin/audit.csv", audit.as_csv, methods=["GET"]),
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
    """Each address has one route, which alone says what it takes: see `Address`."""
    return [
        Address("/datasets", datasets.index, methods=["GET"]),
        Address("/datasets/{name}", datasets.show, methods=["GET"]),
        Address("/datasets/{name}/choices/{parameter}", datasets.choices, methods=["GET"]),
        Address("/datasets/{name}/preview", datasets.preview, methods=["POST"]),
        address("/exports", GET=exports.index, POST=exports.order),
        address(EXPORT, GET=exports.show, PATCH=exports.annotate, DELETE=exports.delete),
        Address(EXPORT + "/cancellation", exports.cancel, methods=["POST"]),
        Address(EXPORT + "/retry", exports.retry, methods=["POST"]),
        Address(EXPORT + "/reminder", acks.remind, methods=["POST"]),
        Address(EXPORT + "/attempts", exports.attempts_of, methods=["GET"]),
        Address(EXPORT + "/shares", share_api.index, methods=["GET"]),
        address(EXPORT + "/shares/{person}", PUT=share_api.put, DELETE=share_api.withdraw),
        Address(EXPORT + "/file", files.download, methods=["GET"]),
        Address(EXPORT + "/events", events.of_export, methods=["GET"]),
        address("/saved-orders", GET=saved_order_api.index, POST=saved_order_api.create),
        address(SAVED_ORDER, GET=saved_order_api.show, PATCH=saved_order_api.edit, DELETE=saved_order_api.delete),
        Address(SAVED_ORDER + "/exports", saved_order_api.order, methods=["POST"]),
        Address(SAVED_ORDER + "/restoration", saved_order_api.restore, methods=["POST"]),
        address(SAVED_ORDER + "/schedule", GET=schedule_api.show, PUT=schedule_api.put, DELETE=schedule_api.remove),
        Address(SAVED_ORDER + "/schedule/pause", schedule_api.pause, methods=["POST"]),
        Address(SAVED_ORDER + "/schedule/resumption", schedule_api.resume, methods=["POST"]),
        Address("/events", events.index, methods=["GET"]),
        Address("/acknowledgements", acks.create, methods=["POST"]),
        WebSocketRoute("/ws", events_socket),
        Address("/ws", events.no_socket, methods=["GET"]),
        Address("/account", tokens.account, methods=["GET"]),
        address("/tokens", GET=tokens.index, POST=tokens.create),
        address("/tokens/{token_id}", GET=tokens.show, DELETE=tokens.revoke),
        Address("/workers", worker_api.index, methods=["GET"]),
        Address("/workers/{worker_id}", worker_api.show, methods=["GET"]),
        Address("/workers/{worker_id}/drain", worker_api.drain, methods=["POST"]),
        Address("/workers/{worker_id}/drain/cancellation", worker_api.keep, methods=["POST"]),
        Address("/queues", worker_api.queues_of_desk, methods=["GET"]),
        Address("/queues/{queue}/pause", worker_api.pause, methods=["POST"]),
        Address("/queues/{queue}/resumption", worker_api.resume, methods=["POST"]),
        Address("/openapi.json", openapi.show, methods=["GET"]),
        *people_of_api(),
        *callbacks_of_api(),
    ]


def people_of_api() -> list[BaseRoute]:
    person, group, member = "/users/{user_id}", "/groups/{group_id}", "/groups/{group_id}/members/{user_id}"
    return [
        address("/users", GET=user_api.index, POST=user_api.invite),
        address(person, GET=user_api.show, PATCH=user_api.change, DELETE=user_api.delete),
        Address(person + "/reset", user_api.reset, methods=["POST"]),
        Address(person + "/disabling", user_api.disable, methods=["POST"]),
        Address(person + "/enabling", user_api.enable, methods=["POST"]),
        address("/groups", GET=group_api.index, POST=group_api.create),
        address(group, GET=group_api.show, PATCH=group_api.rename, DELETE=group_api.delete),
        Address(group + "/members", group_api.members, methods=["GET"]),
        address(member, PUT=group_api.add_member, DELETE=group_api.remove_member),
        address("/grants", GET=grant_api.index, POST=grant_api.create),
        Address("/grants/datasets", grant_api.datasets, methods=["GET"]),
        Address("/grants/datasets/{name}", grant_api.dataset, methods=["GET"]),
        Address("/grants/datasets/{name}/opening", grant_api.open_to_all, methods=["POST"]),
        address("/grants/{grant_id}", GET=grant_api.show, DELETE=grant_api.withdraw),
        Address("/audit", audit_api.index, methods=["GET"]),
    ]


def callbacks_of_api() -> list[BaseRoute]:
    return [
        address("/callbacks", GET=callback_api.index, POST=callback_api.create),
        address("/callbacks/hosts", GET=callback_api.hosts, PUT=callback_api.set_hosts),
        Address("/callbacks/test", callback_api.try_unsaved, methods=["POST"]),
        address(ENDPOINT, GET=callback_api.show, PATCH=callback_api.edit, DELETE=callback_api.delete),
        Address(ENDPOINT + "/test", callback_api.try_saved, methods=["POST"]),
        Address(ENDPOINT + "/rotation", callback_api.rotate, methods=["POST"]),
        address(ENDPOINT + "/recovery", GET=callback_api.recoverable, POST=callback_api.recover),
        Address(ENDPOINT + "/pause", callback_api.pause, methods=["POST"]),
        Address(ENDPOINT + "/resumption", callback_api.resume, methods=["POST"]),
        Address("/deliveries", delivery_api.index, methods=["GET"]),
        Address("/deliveries/redelivery", delivery_api.redeliver_matching, methods=["POST"]),
        Address("/deliveries/{delivery_id}", delivery_api.show, methods=["GET"]),
        Address("/deliveries/{delivery_id}/redelivery", delivery_api.redeliver, methods=["POST"]),
    ]


class Address(Route):
    """What it does not take is 405, also where another address with an id in that place would take it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL else match), child


def resource(path: str, **handlers: Handler) -> Route:
    """One address with a handler for each method, so that a 405 names all of them."""
    return Route(path, by_method(handlers), methods=list(handlers), name=path)


def address(path: str, **handlers: Handler) -> Route:
    """The same, of the API."""
    return Address(path, by_method(handlers), methods=list(handlers), name=path)


def by_method(handlers: Mapping[str, Handler]) -> Handler:
    async def dispatch(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](request)

    return dispatch


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
