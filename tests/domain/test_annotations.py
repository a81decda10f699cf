"""Names and notes: what is taken, how it is tidied, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.domain.annotations import Annotation, annotation
from webapp.domain.errors import Invalid
from webapp.domain.limits import NAME_LENGTH, NOTE_LENGTH

BEFORE = Annotation("before", "noted before")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({}, BEFORE),
        ({"name": "  For  Ann\n"}, Annotation("For Ann", "noted before")),
        ({"note": "\r\none\r\ntwo\rthree\n"}, Annotation("before", "one\ntwo\nthree")),
        ({"name": "", "note": " "}, Annotation()),
        ({"name": "東" * NAME_LENGTH, "note": "😀" * NOTE_LENGTH}, Annotation("東" * NAME_LENGTH, "😀" * NOTE_LENGTH)),
    ],
)
def test_what_is_sent_is_tidied_and_the_rest_stays(sent: dict[str, Any], kept: Annotation) -> None:
    assert annotation(sent, BEFORE) == kept


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({"name": "x" * (NAME_LENGTH + 1)}, ["name"]),
        ({"name": "a\0b"}, ["name"]),
        ({"name": "a\u202eb"}, ["name"]),
        ({"name": None}, ["name"]),
        ({"note": "x" * (NOTE_LENGTH + 1)}, ["note"]),
        ({"note": "a\0b"}, ["note"]),
        ({"name": 1, "note": ["x"]}, ["name", "note"]),
    ],
)
def test_every_mistake_is_named(sent: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        annotation(sent, BEFORE)
    assert [error.field for error in refused.value.errors] == fields
