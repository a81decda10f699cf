"""What handlers ask of a request: the resources, the viewer, and ids from its path."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from webapp.domain.access import NotFound, Viewer
from webapp.domain.ids import is_id
from webapp.live.hub import Hub
from webapp.resources import Resources


class SignInNeeded(Exception):
    """Nobody is signed in: a page answers with the sign-in form, everything else with 401."""


class AdminNeeded(Exception):
    """Who is signed in is not an admin."""


def resources(connection: HTTPConnection) -> Resources:
    return connection.app.state.resources


def hub(connection: HTTPConnection) -> Hub:
    return connection.app.state.hub


def viewer(connection: HTTPConnection) -> Viewer:
    """The person behind the request. Raises SignInNeeded."""
    found = connection.scope.get("viewer")
    if found is None:
        raise SignInNeeded
    return found


def admin(connection: HTTPConnection) -> Viewer:
    """The admin behind the request. Raises SignInNeeded and AdminNeeded."""
    found = viewer(connection)
    if not found.is_admin:
        raise AdminNeeded
    return found


def viewer_or_none(connection: HTTPConnection) -> Viewer | None:
    return connection.scope.get("viewer")


def export_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "export_id", "exp")


def endpoint_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "endpoint_id", "end")


def delivery_id(connection: HTTPConnection) -> str:
    """Raises NotFound for what cannot be an id."""
    return _path_id(connection, "delivery_id", "dlv")


def _path_id(connection: HTTPConnection, name: str, prefix: str) -> str:
    text = connection.path_params[name]
    if not is_id(text, prefix):
        raise NotFound
    return text
