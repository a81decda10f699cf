"""Reading what API clients send: JSON bodies into types, query strings into filters. Every mistake is named."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from webapp.domain import limits
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Status
from webapp.web import cursors
from webapp.web.failures import Refused

T = TypeVar("T")


class OrderBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /exports`."""

    dataset: str
    params: dict[str, Any] = {}
    format: str = "csv"
    options: dict[str, Any] = {}
    callback_url: str | None = None


class PreviewBody(msgspec.Struct, forbid_unknown_fields=True):
    """As an order, to hear what it would come to. `format` None is the dataset's first one."""

    params: dict[str, Any] = {}
    format: str | None = None
    options: dict[str, Any] = {}


async def read_body(request: Request, kind: type[T]) -> T:
    """Raises Refused for what is not JSON and Invalid for JSON of another shape."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", "Send JSON, with Content-Type: application/json.")
    body = await request.body()
    try:
        decoded = msgspec.json.decode(body, type=kind)
        json.loads(body.decode(), object_pairs_hook=_unique_names, parse_int=str)
        return decoded
    except msgspec.ValidationError as error:
        raise Invalid([_field_error(str(error))]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "BAD_JSON", "The body is not valid JSON.") from error


def _unique_names(pairs: list[tuple[str, Any]]) -> None:
    """msgspec takes the last of two members of one name; what checked the order before us may have read the first."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise Refused(400, "BAD_JSON", "The body has an object with the same name twice.")


def _field_error(message: str) -> FieldError:
    """msgspec says `Expected `str`, got `int` - at `$.dataset``."""
    text, _, path = message.partition(" - at `$")
    if field := re.search(r"(?:required|unknown) field `([^`]+)`", text):
        return FieldError(field[1], "This field is required." if "required" in text else "There is no such field.")
    return FieldError(path.strip("`.") or "body", text.replace("`", "") + ".")


def query_limit(request: Request) -> int:
    text = request.query_params.get("limit", str(limits.PAGE_SIZE))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= limits.MAX_PAGE_SIZE):
        raise Invalid([FieldError("limit", f"Must be a whole number from 1 to {limits.MAX_PAGE_SIZE}.")])
    return int(text)


def query_wait(request: Request) -> float:
    """Seconds to wait for a change, cut to the longest we allow. 0 when not asked for."""
    text = request.query_params.get("wait", "0")
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text):
        raise Invalid([FieldError("wait", "Must be a number of seconds.")])
    return min(float(text), limits.LONG_POLL_SECONDS)


def query_statuses(request: Request) -> tuple[Status, ...]:
    """`status=` once with commas or several times."""
    names = [name for value in request.query_params.getlist("status") for name in value.split(",") if name]
    try:
        return tuple(Status(name.upper()) for name in names)
    except ValueError as error:
        raise Invalid([FieldError("status", f"Must be one of {', '.join(Status)}.")]) from error


def query_name(request: Request, name: str) -> str | None:
    """A name to filter by, or None. PostgreSQL takes no NUL in a text, so nothing can have such a name."""
    text = request.query_params.get(name)
    if text and "\0" in text:
        raise Invalid([FieldError(name, "Must not contain NUL characters.")])
    return text or None


def query_since(request: Request) -> datetime | None:
    text = request.query_params.get("since")
    return moment(text, "since") if text else None


def moment(text: str, field: str) -> datetime:
    """A date or an RFC 3339 time; without a zone it is UTC. Raises Invalid."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        found = datetime.fromisoformat(text.replace(" ", "+"))
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise Invalid([FieldError(field, "Must be a date or time such as 2026-01-31T08:00:00Z.")]) from error


def query_cursor(request: Request, prefix: str) -> tuple[datetime, str] | None:
    """Raises Invalid for what we did not make."""
    text = request.query_params.get("cursor")
    after = cursors.decode(text, prefix)
    if text and after is None:
        raise Invalid([FieldError("cursor", "Use next_cursor of the page before, unchanged.")])
    return after
