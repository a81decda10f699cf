"""Options of an order: what is taken, what is refused and by which field name."""

from __future__ import annotations

import pytest

from webapp.domain.errors import Invalid
from webapp.domain.formats import (
    API_DEFAULTS,
    FORMATS,
    PERSON_DEFAULTS,
    Options,
    content_type,
    file_extension,
    options_json,
    parse_options,
)


def test_a_person_and_the_api_start_from_different_defaults():
    assert parse_options({}, "csv", defaults=PERSON_DEFAULTS) == Options(bom=True, csv_text="safe")
    assert parse_options({}, "csv", defaults=API_DEFAULTS) == Options(bom=False, csv_text="raw")


def test_every_option_is_taken():
    raw = {"bom": True, "csv_text": "safe", "delimiter": "\t", "compression": "gzip"}
    assert parse_options(raw, "csv", defaults=API_DEFAULTS) == Options(True, "safe", "\t", "gzip")
    assert parse_options({"timezone": "Europe/Berlin"}, "xlsx", defaults=API_DEFAULTS).timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("bom", 1), ("bom", "true"), ("csv_text", "careful"), ("csv_text", None), ("delimiter", "|")),
        *(
            ("delimiter", ""),
            ("compression", "zip"),
            ("compression", ["gzip"]),
            ("timezone", "Mars/Base"),
            ("timezone", ""),
        ),
        *(
            ("timezone", 3),
            ("timezone", "../etc/passwd"),
            ("timezone", "/etc/localtime"),
            ("timezone", "\0"),
            ("colour", "red"),
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_field(name, value):
    with pytest.raises(Invalid) as caught:
        parse_options({name: value}, "csv", defaults=API_DEFAULTS)
    assert [error.field for error in caught.value.errors] == [f"options.{name}"]


@pytest.mark.parametrize("format", FORMATS)
def test_columns_are_an_option_of_every_format_and_told_only_when_chosen(format):
    chosen = parse_options({"columns": ["b", "a"]}, format, defaults=PERSON_DEFAULTS)
    assert chosen.columns == ("b", "a")
    told = options_json(chosen, format)
    assert told["columns"] == ["b", "a"]
    assert parse_options(told, format, defaults=PERSON_DEFAULTS) == chosen
    assert "columns" not in options_json(PERSON_DEFAULTS, format)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(Invalid) as caught:
        parse_options({"bom": 1, "x": 2}, "csv", defaults=API_DEFAULTS)
    assert {error.field for error in caught.value.errors} == {"options.bom", "options.x"}


def test_an_unknown_format_is_refused():
    with pytest.raises(Invalid) as caught:
        parse_options({}, "pdf", defaults=API_DEFAULTS)
    assert caught.value.errors[0].field == "format"


def test_only_what_applies_to_the_format_is_kept():
    options = parse_options({"compression": "gzip", "bom": True}, "xlsx", defaults=API_DEFAULTS)
    assert options == API_DEFAULTS
    assert options_json(options, "xlsx") == {"timezone": "UTC"}
    assert options_json(API_DEFAULTS, "csv") == {
        **{"bom": False, "csv_text": "raw", "delimiter": ",", "compression": "none"}
    }
    assert options_json(API_DEFAULTS, "jsonl") == {"compression": "none"}


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_stored_can_be_read_again(format):
    stored = options_json(PERSON_DEFAULTS, format)
    assert options_json(parse_options(stored, format, defaults=API_DEFAULTS), format) == stored


@pytest.mark.parametrize(
    ("format", "compression", "extension", "kind"),
    [
        ("csv", "none", ".csv", "text/csv; charset=utf-8"),
        ("csv", "gzip", ".csv.gz", "application/gzip"),
        ("jsonl", "gzip", ".jsonl.gz", "application/gzip"),
        ("xlsx", "gzip", ".xlsx", FORMATS["xlsx"].content_type),
    ],
)
def test_extension_and_content_type_follow_the_compression(format, compression, extension, kind):
    options = Options(compression=compression)
    assert (file_extension(format, options), content_type(format, options)) == (extension, kind)
