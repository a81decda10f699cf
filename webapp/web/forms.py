"""What a form sent, and showing it again with what is wrong at each field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from webapp.domain.errors import FieldError
from webapp.domain.limits import COLUMNS_MOST, LIST_ITEMS
from webapp.language import gettext

MAX_FIELDS = LIST_ITEMS + COLUMNS_MOST + 200


@dataclass(frozen=True, slots=True)
class Form:
    """Every field that was sent, each with all its values."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def text(self, name: str, default: str = "") -> str:
        """The last value, as browsers and servers agree for a field that is there twice."""
        values = self.fields.get(name)
        return values[-1] if values else default

    def all(self, name: str) -> Sequence[str]:
        return self.fields.get(name, ())

    def group(self, prefix: str) -> dict[str, Sequence[str]]:
        """The fields whose names start so, without that start: `p.since` is `since`."""
        return {name.removeprefix(prefix): values for name, values in self.fields.items() if name.startswith(prefix)}


def form_of(items: Iterable[tuple[str, object]]) -> Form:
    """Uploaded files are left out: no form of ours takes one."""
    fields: dict[str, list[str]] = {}
    for name, value in items:
        if isinstance(value, str):
            fields.setdefault(name, []).append(value)
    return Form(fields)


async def read_form(request: Request) -> Form:
    """The body of a POST. Raises HTTPException 400 for one that is no form or has too many fields."""
    async with request.form(max_files=0, max_fields=MAX_FIELDS) as data:
        return form_of(data.multi_items())


def query_form(params: ImmutableMultiDict[str, str]) -> Form:
    """The query string as if it were a form."""
    return form_of(params.multi_items())


def messages_by_field(errors: Iterable[FieldError]) -> dict[str, str]:
    """All that is wrong with a field, as one text."""
    messages: dict[str, str] = {}
    for error in errors:
        text = sentence(gettext(error.message))
        messages[error.field] = f"{messages[error.field]} {text}" if error.field in messages else text
    return messages


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", "。", "？", "！")) else text + "."
