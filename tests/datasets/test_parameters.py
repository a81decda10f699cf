"""Parameters of an order: one place for forms, JSON and the command line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webapp.datasets.declaration import Choice, Dataset, Parameter, ParameterType
from webapp.datasets.parameters import bind_values, parse_params
from webapp.datasets.relative import moment_in
from webapp.datasets.schema import json_schema
from webapp.domain.access import Role
from webapp.domain.errors import Invalid

TODAY = date(2026, 11, 29)  # a Sunday
NOW = datetime(2026, 11, 29, 12, 30, 15, 999, tzinfo=timezone(timedelta(hours=2)))
CHOICES = (Choice("DE", "Germany"), Choice("FR", "France"), Choice("JP", "日本"))


def parameter(kind: str, **rules: Any) -> Parameter:
    choices = CHOICES if kind.startswith("choice") else ()
    given_rules: dict[str, Any] = {"name": "p", "label": "Since", "choices": choices, **rules}
    return Parameter(type=ParameterType(kind), **given_rules)


def dataset(*parameters: Parameter) -> Dataset:
    return Dataset("d", "D", "", "s", "SELECT 1", parameters, frozenset(Role), ("csv",))


def parsed(declared: Parameter, *raw: Any) -> Any:
    given_values = {"p": raw[0]} if raw else {}
    return parse_params(dataset(declared), given_values, today=TODAY, now=NOW)["p"]


def refusal(declared: Parameter, *raw: Any) -> str:
    with pytest.raises(Invalid) as caught:
        parsed(declared, *raw)
    assert [error.field for error in caught.value.errors] == ["params.p"]
    return caught.value.errors[0].message


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("string", "  Zoë 🚀 ", "  Zoë 🚀 "),
        ("string", "   ", "   "),
        ("string", "00042", "00042"),
        ("integer", 5, 5),
        ("integer", 5.0, 5),
        ("integer", " -5 ", -5),
        ("integer", str(2**63 - 1), 2**63 - 1),
        ("number", "9.50", 9.5),
        ("number", "1e3", 1000.0),
        ("number", ".5", 0.5),
        ("number", "7", 7),
        ("number", 0.1, 0.1),
        ("boolean", True, True),
        ("boolean", "on", True),
        ("boolean", "False", False),
        ("date", " 2024-02-29 ", "2024-02-29"),
        ("datetime", "2026-01-31T14:30", "2026-01-31T14:30:00Z"),
        ("datetime", "2026-01-31 14:30:05+05:45", "2026-01-31T08:45:05Z"),
        ("datetime", "2026-01-31t14:30:05.25z", "2026-01-31T14:30:05.250000Z"),
        ("choice", "DE", "DE"),
        ("choices", ["JP", "DE", "JP"], ["DE", "JP"]),
        ("choices", "FR", ["FR"]),
        ("list", ["b", "", "a", "b"], ["b", "a", "b"]),
        ("list", "one\r\n two \n\nthree\u2028same", ["one", "two", "three\u2028same"]),
    ],
)
def test_a_value_gets_its_canonical_form_and_keeps_it(kind: str, raw: Any, value: Any) -> None:
    declared = parameter(kind)
    result = parsed(declared, raw)
    assert (result, type(result)) == (value, type(value))
    assert parsed(declared, result) == result


@pytest.mark.parametrize(
    ("kind", "raw", "message"),
    [
        ("string", 5, "Since must be text."),
        ("string", {"a": 1}, "Since must be text."),
        ("string", "a\0b", "Since must not contain NUL characters."),
        ("string", "\ud800", "Since must be valid Unicode text."),
        ("string", "x" * 10_001, "Since must have at most 10,000 characters, not 10,001."),
        ("integer", True, "Since must be a whole number."),
        ("integer", "1_000", "Since must be a whole number."),
        ("integer", "٣", "Since must be a whole number."),
        ("integer", "1.0", "Since must be a whole number."),
        ("integer", 1.5, "Since must be a whole number."),
        ("integer", math.nan, "Since must be a whole number."),
        ("integer", math.inf, "Since must be a whole number."),
        ("integer", "9" * 5000, "Since must be a whole number."),
        ("integer", 2**63, "Since must be a whole number that fits into 64 bits."),
        ("integer", str(-(2**63) - 1), "Since must be a whole number that fits into 64 bits."),
        ("integer", 1e300, "Since must be a whole number that fits into 64 bits."),
        ("number", False, "Since must be a number, such as 12 or 9.50."),
        ("number", "nan", "Since must be a number, such as 12 or 9.50."),
        ("number", "1,5", "Since must be a number, such as 12 or 9.50."),
        ("number", math.nan, "Since must be a finite number."),
        ("number", "1e999", "Since must be a finite number."),
        ("number", 10**40, "Since must be a whole number that fits into 64 bits."),
        ("boolean", 1, "Since must be true or false."),
        ("boolean", "maybe", "Since must be true or false."),
        ("date", "2026-02-30", "Since must be a date like 2026-01-31."),
        ("date", "20260131", "Since must be a date like 2026-01-31."),
        ("date", "yesterday", "Since must be a date like 2026-01-31."),
        ("date", 20260131, "Since must be a date like 2026-01-31."),
        ("datetime", "2026-01-31", "Since must be a date and time like 2026-01-31T14:30:00Z."),
        ("datetime", "2026-01-31T24:30", "Since must be a date and time like 2026-01-31T14:30:00Z."),
        ("datetime", "0001-01-01T00:00+01:00", "Since must be a date and time like 2026-01-31T14:30:00Z."),
        ("choice", "de", "Since must be one of DE, FR, JP. Did you mean DE?"),
        ("choice", 5, "Since must be one of DE, FR, JP."),
        ("choices", ["DE", ["FR"]], "Since must be one of DE, FR, JP."),
        ("choices", {"DE": 1}, "Since must be a list of texts."),
        ("list", [1], "Since must be text."),
        ("list", 1, "Since must be a list of texts."),
        ("list", ["x"] * 1001, "Since must have at most 1,000 items, not 1,001."),
        ("list", ["x" * 10_001], "Since must have at most 10,000 characters, not 10,001."),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_a_sentence(kind: str, raw: Any, message: str) -> None:
    assert refusal(parameter(kind), raw) == message


@pytest.mark.parametrize(
    ("kind", "rules", "raw", "message"),
    [
        ("integer", {"minimum": 0}, -1, "Since must be 0 or more."),
        ("number", {"maximum": 2.5}, "2.51", "Since must be 2.5 or less."),
        ("date", {"minimum": "2026-01-01"}, "2025-12-31", "Since must be 2026-01-01 or later."),
        ("date", {"maximum": "today"}, "2026-11-30", "Since must be 2026-11-29 or earlier."),
        ("datetime", {"maximum": "now"}, "2026-11-29T10:30:16Z", "Since must be 2026-11-29T10:30:15Z or earlier."),
        (
            "datetime",
            {"minimum": "2026-01-01T00:00:00.500000Z"},
            "2026-01-01T00:00:00Z",
            "Since must be 2026-01-01T00:00:00.500000Z or later.",
        ),
        ("string", {"max_length": 3}, "1234", "Since must have at most 3 characters, not 4."),
    ],
)
def test_a_value_out_of_range_is_refused(kind: str, rules: dict[str, Any], raw: Any, message: str) -> None:
    assert refusal(parameter(kind, **rules), raw) == message


@pytest.mark.parametrize("kind", ParameterType)
@pytest.mark.parametrize("raw", [(), (None,), ("",), ([],), ([""],)])
def test_absent_null_and_empty_all_mean_left_out(kind: ParameterType, raw: tuple[Any, ...]) -> None:
    assert parsed(parameter(kind), *raw) is None
    assert refusal(parameter(kind, required=True), *raw) == "Since is required."


def test_a_default_fills_what_is_left_out_even_when_required() -> None:
    assert parsed(parameter("integer", default=3, required=True)) == 3
    assert parsed(parameter("boolean", default=True), False) is False


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("date", "today", "2026-11-29"),
        ("date", "today - 30d", "2026-10-30"),
        ("date", "today+1d", "2026-11-30"),
        ("date", "start of week", "2026-11-23"),
        ("date", "start of month - 1d", "2026-10-31"),
        ("date", "start of year", "2026-01-01"),
        ("date", "2020-01-01", "2020-01-01"),
        ("datetime", "now", "2026-11-29T10:30:15Z"),
        ("datetime", "now - 6h", "2026-11-29T04:30:15Z"),
        ("datetime", "now + 90m", "2026-11-29T12:00:15Z"),
        ("datetime", "today - 1d", "2026-11-27T22:00:00Z"),
    ],
)
def test_relative_defaults_become_absolute(kind: str, default: str, value: str) -> None:
    assert parsed(parameter(kind, default=default)) == value


@pytest.mark.parametrize(
    ("zone", "kind", "default", "value"),
    [
        ("UTC", "date", "today", "2026-12-31"),
        ("Asia/Tokyo", "date", "today", "2027-01-01"),
        ("Asia/Tokyo", "date", "start of year", "2027-01-01"),
        ("America/New_York", "date", "start of month", "2026-12-01"),
        ("Asia/Tokyo", "datetime", "today", "2026-12-31T15:00:00Z"),
        ("Asia/Kathmandu", "datetime", "start of month", "2026-12-31T18:15:00Z"),
        ("Asia/Tokyo", "datetime", "now - 6h", "2026-12-31T17:30:00Z"),
        ("Europe/Berlin", "datetime", "today - 100d", "2026-09-22T22:00:00Z"),
        ("Mars/Olympus", "date", "today", "2026-12-31"),
        ("../etc/passwd", "date", "today", "2026-12-31"),
        ("", "date", "today", "2026-12-31"),
    ],
)
def test_relative_defaults_mean_the_day_of_a_zone(zone: str, kind: str, default: str, value: str) -> None:
    moment = moment_in(zone, datetime(2026, 12, 31, 23, 30, tzinfo=UTC))
    declared = dataset(parameter(kind, default=default))
    assert parse_params(declared, {}, today=moment.today, now=moment.now) == {"p": value}


def test_a_default_that_left_its_range_is_refused_not_used() -> None:
    declared = parameter("date", default="2020-01-01", minimum="today - 30d")
    assert refusal(declared) == "Since must be 2026-10-30 or later."


def test_every_mistake_is_told_at_once() -> None:
    declared = dataset(parameter("date", name="since"), parameter("integer", name="size", label="Size", required=True))
    with pytest.raises(Invalid) as caught:
        parse_params(declared, {"sinse": "2026-01-01", "since": "x"}, today=TODAY, now=NOW)
    assert [(error.field, error.message) for error in caught.value.errors] == [
        ("params.sinse", "This dataset has no parameter sinse. Did you mean since?"),
        ("params.since", "Since must be a date like 2026-01-31."),
        ("params.size", "Size is required."),
    ]


def test_thousands_of_unknown_parameters_make_a_short_answer() -> None:
    with pytest.raises(Invalid) as caught:
        parse_params(dataset(), {f"{n:0500d}": 1 for n in range(5000)}, today=TODAY, now=NOW)
    assert len(caught.value.errors) == 20
    assert len(str(caught.value)) < 10_000


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.sampled_from(ParameterType), ANYTHING)
def test_whatever_comes_is_a_canonical_value_or_a_sentence(kind: ParameterType, raw: Any) -> None:
    declared = dataset(parameter(kind))
    try:
        values = parse_params(declared, {"p": raw}, today=TODAY, now=NOW)
    except Invalid:
        return
    json.dumps(values, allow_nan=False).encode()
    assert parse_params(declared, json.loads(json.dumps(values)), today=TODAY, now=NOW) == values


def test_lists_are_bound_as_json_and_the_rest_as_it_is() -> None:
    declared = dataset(*(parameter("string", name=name) for name in "abcde"))
    bound = bind_values(declared, {"a": True, "b": ["ü", "x"], "c": 1.5, "d": "t"})
    assert bound == {"a": True, "b": '["ü", "x"]', "c": 1.5, "d": "t", "e": None}
    assert type(bound["a"]) is bool


def test_the_json_schema_says_what_is_checked() -> None:
    since = parameter("date", name="since", default="today - 30d", maximum="today", description="First day.")
    schema = json_schema(
        dataset(
            since,
            parameter("choices", name="country", label="Country"),
            parameter("number", name="least", label="Least", minimum=0, required=True),
            parameter("list", name="skus", label="SKUs", max_length=6),
            parameter("boolean", name="fast", label="Fast", default=False),
            replace(since, name="at", type=ParameterType.DATETIME, default="2026-01-01T00:00:00Z", maximum=None),
        )
    )
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["required"], schema["additionalProperties"]) == (["least"], False)
    assert schema["properties"] == {
        "since": {
            "title": "Since",
            "type": "string",
            "format": "date",
            "description": "First day. Not after today. Default: today - 30d.",
            "x-default-expression": "today - 30d",
        },
        "country": {
            "title": "Country",
            "type": "array",
            "items": {
                "type": "string",
                "oneOf": [
                    {"const": "DE", "title": "Germany"},
                    {"const": "FR", "title": "France"},
                    {"const": "JP", "title": "日本"},
                ],
            },
            "maxItems": 1000,
        },
        "least": {"title": "Least", "type": "number", "minimum": 0},
        "skus": {"title": "SKUs", "type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 1000},
        "fast": {"title": "Fast", "type": "boolean", "default": False},
        "at": {
            "title": "Since",
            "type": "string",
            "format": "date-time",
            "description": "First day.",
            "default": "2026-01-01T00:00:00Z",
        },
    }


def test_the_json_schema_says_where_choices_are_to_be_had() -> None:
    schema = json_schema(dataset(parameter("choices", choices=(), choices_sql="SELECT secret FROM t")))
    assert schema["properties"]["p"] == {
        "title": "Since",
        "type": "array",
        "items": {"type": "string"},
        "maxItems": 1000,
        "x-choices-url": "/api/v1/datasets/d/choices/p",
    }


def test_midnight_utc_is_not_the_day_of_a_zone_that_is_ahead() -> None:
    late = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
    values = parse_params(dataset(parameter("date", default="start of year")), {}, today=date(2027, 1, 1), now=late)
    assert values == {"p": "2027-01-01"}


@pytest.mark.parametrize(
    ("words", "day"),
    [
        ("start of last week", "2026-11-16"),
        ("end of week", "2026-11-29"),
        ("start of next week", "2026-11-30"),
        ("end of month", "2026-11-30"),
        ("start of last month", "2026-10-01"),
        ("end of last month", "2026-10-31"),
        ("end of next month + 1d", "2027-01-01"),
        ("start of quarter", "2026-10-01"),
        ("end of last quarter", "2026-09-30"),
        ("start of next quarter", "2027-01-01"),
        ("end of last year", "2025-12-31"),
        ("end of year", "2026-12-31"),
    ],
)
def test_a_day_may_be_given_in_words(words: str, day: str) -> None:
    assert parsed(parameter("date"), f" {words} ") == day


def test_the_end_of_a_period_is_the_midnight_after_its_last_day() -> None:
    assert parsed(parameter("datetime"), "end of last month") == "2026-10-31T22:00:00Z"
    assert parsed(parameter("datetime"), "now - 1h") == "2026-11-29T09:30:15Z"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("date", "now"), ("date", "start of day"), ("date", "today - 99999999d"), ("datetime", "start of century")],
)
def test_words_that_are_no_day_are_refused(kind: str, words: str) -> None:
    assert "must be a date" in refusal(parameter(kind), words)


def test_words_keep_to_the_range() -> None:
    assert (
        refusal(parameter("date", minimum="today - 7d"), "start of last month") == "Since must be 2026-11-22 or later."
    )
    assert parsed(parameter("string"), "today") == "today"
