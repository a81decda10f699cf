"""Reading what API clients send: JSON bodies into types, query strings into filters. Every mistake is named."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta
from starlette.requests import Request

from webapp.actions.people import USER_NAME
from webapp.domain import limits
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Status
from webapp.domain.formats import COMPRESSIONS, CSV_TEXTS, DELIMITERS, FORMATS
from webapp.domain.sentences import say
from webapp.domain.targets import LONGEST_URL
from webapp.settings import parse_duration
from webapp.web import cursors
from webapp.web.failures import Refused

T = TypeVar("T")
IN_ONE_LINE = r"[^\x00-\x1f\x7f-\x9f]"


SPAN = "^([0-9]{1,12} *(ms|s|m|h|d)|0+)$"
"""What `span` reads."""
DatasetName = Annotated[str, Meta(max_length=200)]
Params = Annotated[dict[str, Any], Meta(description="By name, as the dataset's `parameters` have them.")]
FormatName = Annotated[str, Meta(extra_json_schema={"enum": list(FORMATS)})]
OptionValues = Annotated[
    dict[str, Any],
    Meta(
        description="What does not apply to the format is checked, and has no effect.",
        extra_json_schema={
            "properties": {
                "bom": {"type": "boolean"},
                "csv_text": {"enum": list(CSV_TEXTS)},
                "delimiter": {"enum": list(DELIMITERS)},
                "compression": {"enum": list(COMPRESSIONS)},
                "timezone": {"type": "string", "minLength": 1, "description": "As in `Europe/Berlin`."},
                "columns": {
                    "type": "array",
                    "description": "Of the dataset, in the order of the file. Left out, the file has all of them.",
                    "items": {"type": "string", "maxLength": limits.COLUMN_NAME_LENGTH, "pattern": r"^[^\x00]*$"},
                    "minItems": 1,
                    "maxItems": limits.COLUMNS_MOST,
                    "uniqueItems": True,
                },
            },
            "additionalProperties": False,
        },
    ),
]
Name = Annotated[
    Any,
    Meta(
        description="One line.",
        extra_json_schema={"type": "string", "maxLength": limits.NAME_LENGTH, "pattern": f"^{IN_ONE_LINE}*$"},
    ),
]
Note = Annotated[
    Any,
    Meta(
        description="Lines of text.",
        extra_json_schema={
            "type": "string",
            "maxLength": limits.NOTE_LENGTH,
            "pattern": f"^({IN_ONE_LINE}|[\\t\\n])*$",
        },
    ),
]

Moment = Annotated[
    str,
    Meta(
        description="A date, or an RFC 3339 time; without a zone it is UTC.",
        examples=["2026-01-31", "2026-01-31T08:00:00Z"],
        extra_json_schema={"anyOf": [{"format": "date"}, {"format": "date-time"}]},
    ),
]


class OrderBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be exported, and as what."""

    dataset: DatasetName
    params: Params = {}
    format: FormatName = "csv"
    options: OptionValues = {}
    callback_url: Annotated[str, Meta(max_length=LONGEST_URL, extra_json_schema={"format": "uri"})] | None = None
    notify: Literal["email"] | None = None
    name: Name = UNSET
    note: Note = UNSET


class AnnotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    name: Name = UNSET
    note: Note = UNSET


class PreviewBody(msgspec.Struct, forbid_unknown_fields=True):
    """As an order, to hear what it would come to. Without a `format` it is the dataset's first one."""

    params: Params = {}
    format: FormatName | None = None
    options: OptionValues = {}


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
        raise Refused(400, "BAD_JSON", say("The body is not valid JSON.")) from error


def span(text: str, field: str, mend: str) -> timedelta:
    """`24h`, `0s`. Raises Invalid, with the mend."""
    if re.fullmatch(r"0+\s*(ms|s|m|h|d)?", text.strip()):
        return timedelta(0)
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Invalid([FieldError(field, mend)]) from error


def annotated(body: OrderBody | AnnotationBody) -> dict[str, Any]:
    """What it says of name and note."""
    return {name: value for name, value in (("name", body.name), ("note", body.note)) if value is not UNSET}


def _unique_names(pairs: list[tuple[str, Any]]) -> None:
    """msgspec takes the last of two members of one name; what checked the order before us may have read the first."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise Refused(400, "BAD_JSON", say("The body has an object with the same name twice."))


def _field_error(message: str) -> FieldError:
    """msgspec says `Expected `str`, got `int` - at `$.dataset``."""
    text, _, path = message.partition(" - at `$")
    if field := re.search(r"(?:required|unknown) field `([^`]+)`", text):
        return FieldError(
            field[1], say("This field is required.") if "required" in text else say("There is no such field.")
        )
    return FieldError(path.strip("`.") or "body", text.replace("`", "") + ".")


def query_limit(request: Request) -> int:
    text = request.query_params.get("limit", str(limits.PAGE_SIZE))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= limits.MAX_PAGE_SIZE):
        raise Invalid([FieldError("limit", say("Must be a whole number from 1 to {most}.", most=limits.MAX_PAGE_SIZE))])
    return int(text)


def query_wait(request: Request) -> float:
    """Seconds to wait for a change, cut to the longest we allow. 0 when not asked for."""
    text = request.query_params.get("wait", "0")
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text):
        raise Invalid([FieldError("wait", say("Must be a number of seconds."))])
    return min(float(text), limits.LONG_POLL_SECONDS)


def query_statuses(request: Request) -> tuple[Status, ...]:
    """`status=` once with commas or several times."""
    names = [name for value in request.query_params.getlist("status") for name in value.split(",") if name]
    try:
        return tuple(Status(name.upper()) for name in names)
    except ValueError as error:
        raise Invalid([FieldError("status", say("Must be one of {choices}.", choices=", ".join(Status)))]) from error


def query_name(request: Request, name: str) -> str | None:
    """A name to filter by, or None. PostgreSQL takes no NUL in a text, so nothing can have such a name."""
    text = request.query_params.get(name)
    if text and "\0" in text:
        raise Invalid([FieldError(name, say("Must not contain NUL characters."))])
    if text and len(text) > limits.QUERY_TEXT_LENGTH:
        raise Invalid([FieldError(name, say("Must have at most {most} characters.", most=limits.QUERY_TEXT_LENGTH))])
    return text or None


def query_all(request: Request) -> bool:
    """Whether everybody's are asked for, which only an admin gets."""
    return query_flag(request, "all")


def query_flag(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "0")
    if text not in {"0", "1"}:
        raise Invalid([FieldError(name, say("Must be 1 or 0."))])
    return text == "1"


def query_one_of(request: Request, name: str, choices: Collection[str]) -> str | None:
    text = request.query_params.get(name)
    if text and text not in choices:
        raise Invalid([FieldError(name, say("Must be one of {choices}.", choices=", ".join(choices)))])
    return text or None


def query_since(request: Request) -> datetime | None:
    return _query_moment(request, "since")


def query_until(request: Request) -> datetime | None:
    return _query_moment(request, "until")


def _query_moment(request: Request, name: str) -> datetime | None:
    text = request.query_params.get(name)
    return moment(text, name) if text else None


def moment(text: str, field: str) -> datetime:
    """A date or an RFC 3339 time; without a zone it is UTC. Raises Invalid."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        found = datetime.fromisoformat(text.replace(" ", "+"))
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise Invalid([FieldError(field, say("Must be a date or time such as 2026-01-31T08:00:00Z."))]) from error


def query_cursor(request: Request, prefix: str) -> tuple[datetime, str] | None:
    """Raises Invalid for what we did not make."""
    text = request.query_params.get("cursor")
    after = cursors.decode(text, prefix)
    if text and after is None:
        raise _not_ours()
    return after


def query_name_cursor(request: Request) -> str | None:
    """Of a list that is ordered by people's names. Raises Invalid for what we did not make."""
    text = request.query_params.get("cursor")
    if text and not USER_NAME.fullmatch(text):
        raise _not_ours()
    return text or None


def _not_ours() -> Invalid:
    return Invalid([FieldError("cursor", say("Use next_cursor of the page before, unchanged."))])
