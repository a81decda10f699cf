"""What handlers ask of a request: the resources, the viewer, and ids from its path."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from webapp.domain.access import NotFound, Role, Scope, Viewer
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.domain.workers import Queue
from webapp.live.hub import Hub
from webapp.resources import Resources


class SignInNeeded(Exception):
    """Nobody is signed in: a page answers with the sign-in form, everything else with 401."""


class AdminNeeded(Exception):
    """Who is signed in is not an admin."""


class ScopeNeeded(Exception):
    """The token is not good for this."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(say("This token has not the scope {scope}.", scope=scope.value))
        self.scope = scope


OF_CALLBACKS = ("/callbacks", "/inspect", "/api/v1/callbacks", "/api/v1/deliveries")
OF_ADMINS = (
    *("/admin", "/monitor", "/api/v1/users", "/api/v1/groups", "/api/v1/grants", "/api/v1/audit"),
    *("/api/v1/workers", "/api/v1/queues"),
)
OF_ONESELF = ("/account", "/api/v1/account", "/api/v1/tokens")
CONFIRMING = ("/api/v1/acknowledgements",)
"""Starts of addresses, by what a token has to be good for there."""

WIDENING = ("/callbacks/hosts", "/api/v1/callbacks/hosts")
"""What is written here says where everybody's orders may send callbacks: that is more than to look after endpoints."""

READING = frozenset({"GET", "HEAD"})


def needed_scope(method: str, path: str) -> Scope:
    """What a token has to be good for. What reads needs `read`, what changes exports `export`; a token can change its
    person's account, and so make tokens, or hosts that callbacks may go to, only with `admin`."""
    if path.startswith(WIDENING) and method not in READING:
        return Scope.ADMIN
    if path.startswith(OF_CALLBACKS):
        return Scope.CALLBACKS
    if path.startswith(OF_ADMINS):
        return Scope.ADMIN
    if method in READING or path.startswith(CONFIRMING):
        return Scope.READ
    return Scope.ADMIN if path.startswith(OF_ONESELF) else Scope.EXPORT


def resources(connection: HTTPConnection) -> Resources:
    return connection.app.state.resources


def hub(connection: HTTPConnection) -> Hub:
    return connection.app.state.hub


def viewer(connection: HTTPConnection) -> Viewer:
    """The person behind the request. Raises SignInNeeded and ScopeNeeded."""
    found: Viewer | None = connection.scope.get("viewer")
    if found is None:
        raise SignInNeeded
    needed = needed_scope(connection.scope.get("method", "GET"), connection.scope["path"])
    if needed not in found.scopes:
        raise ScopeNeeded(needed)
    return found


def admin(connection: HTTPConnection) -> Viewer:
    """The admin behind the request. Raises SignInNeeded, ScopeNeeded and AdminNeeded."""
    found = viewer(connection)
    if found.role is not Role.ADMIN:
        raise AdminNeeded
    return found


def viewer_or_none(connection: HTTPConnection) -> Viewer | None:
    return connection.scope.get("viewer")


def export_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "export_id", "exp")


def saved_order_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "saved_order_id", "sav")


def endpoint_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "endpoint_id", "end")


def delivery_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "delivery_id", "dlv")


def worker_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "worker_id", "wrk")


def user_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "user_id", "usr")


def group_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "group_id", "grp")


def grant_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "grant_id", "grt")


def queue_name(connection: HTTPConnection) -> Queue:
    """Raises NotFound."""
    try:
        return Queue(connection.path_params["queue"])
    except ValueError:
        raise NotFound from None


def _path_id(connection: HTTPConnection, name: str, prefix: str) -> str:
    text = connection.path_params[name]
    if not is_id(text, prefix):
        raise NotFound
    return text
