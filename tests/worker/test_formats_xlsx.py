"""XLSX, opened by readers that are not ours: python-calamine and openpyxl."""

from __future__ import annotations

import datetime as dt
import zipfile
from xml.etree import ElementTree

import openpyxl
import pytest
from awkward import CELLS, NASTY_SOURCES, TEXTS, columns, counts, exported, nasty_database, written
from python_calamine import CalamineWorkbook

from webapp.datasets.columns import Column, Kind
from webapp.domain.errors import AttemptFailed
from webapp.domain.formats import Options
from worker.formats import xlsx
from worker.formats.xlsx_parts import sheet_name


@pytest.fixture(autouse=True, params=[5000, 0], ids=["by_cell", "at_once"])
def early_rows(request, monkeypatch) -> None:
    monkeypatch.setattr("worker.formats.xlsx.EARLY_ROWS", request.param)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.xlsx"


def sheets(out) -> dict[str, list[list]]:
    """By calamine; and openpyxl must find the same sheets, sizes and no formula."""
    book = CalamineWorkbook.from_path(str(out))
    found = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    other = openpyxl.load_workbook(out)
    assert other.sheetnames == [*found]
    for sheet in other:
        assert sheet.max_row == len(found[sheet.title])
        assert not [cell for row in sheet.iter_rows() for cell in row if cell.data_type == "f" or cell.hyperlink]
    return found


def column_of(out, cells, kind="text", options=None) -> tuple[list, dict[str, int]]:
    """The header and the cells of the first sheet's column; a second column keeps empty rows in being."""
    warnings = written(out, "xlsx", columns(v=kind, n="integer"), [(cell, 7) for cell in cells], options)
    (rows,) = sheets(out).values()
    return [row[0] for row in rows], counts(warnings)


def raw_texts(out) -> list[str]:
    """What the XML of the first sheet's text cells says, before any reader undoes escapes."""
    with zipfile.ZipFile(out) as archive:
        root = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    return [node.text or "" for node in root.iter("{http://schemas.openxmlformats.org/spreadsheetml/2006/main}t")]


@pytest.mark.parametrize("source", NASTY_SOURCES)
def test_every_nasty_source_has_its_rows(tmp_path, out, source):
    exported(nasty_database(tmp_path), f"SELECT * FROM {source}", out, "xlsx")
    (rows,) = sheets(out).values()
    assert len(rows) == {"nasty": 9, "twins": 9, "mixed": 6, "empty": 1, "long_cell": 2}[source]


def test_nasty_cell_by_cell(tmp_path, out):
    warnings = exported(nasty_database(tmp_path), "SELECT * FROM nasty", out, "xlsx")
    (rows,) = sheets(out).values()
    assert rows[0] == ["id", "big", "code", "name", "note", "amount", "ratio", "flag", "day", "at (UTC)", "blob"]
    assert rows[1] == [
        *(1, "9007199254740993", "004", "王小明", "plain", 10, 0.1, True),
        *(dt.date(2024, 2, 29), dt.datetime(2024, 3, 31, 1, 30), "AP8="),
    ]
    assert [row[2] for row in rows[1:]] == ["004", "0", "1e5", "=1+1", "+49 30 1234", "  padded  ", "TRUE", "12-05"]
    assert rows[4][1] == 999999999999999
    assert rows[5][1] == "1000000000000000"
    assert [row[8] for row in rows[1:]] == [
        *(dt.date(2024, 2, 29), "1899-12-31", dt.date(9999, 12, 31), dt.date(1970, 1, 1), ""),
        *(dt.date(2000, 1, 1), "1900-02-28", dt.date(1900, 3, 1)),
    ]
    assert rows[6][9] == "2016-12-31 23:59:60Z"
    assert rows[8][9] == "0001-01-01 00:00:00Z"
    assert counts(warnings) == {"CONTROL_REPLACED": 1, "DIGITS_AS_TEXT": 5}


def test_null_has_no_cell_and_empty_text_has_one(out):
    written(out, "xlsx", columns(a="text", b="text"), [(None, "")])
    with zipfile.ZipFile(out) as archive:
        xml = archive.read("xl/worksheets/sheet1.xml").decode()
    assert 'r="A2"' not in xml
    assert '<c r="B2" t="inlineStr"><is><t></t></is></c>' in xml


def test_text_is_never_a_formula_and_keeps_its_characters(out):
    cells, warnings = column_of(out, TEXTS)
    readable = [text for text in TEXTS if "\r" not in text and "_x" not in text]
    replaced = str.maketrans({character: "\ufffd" for text in TEXTS for character in text if unfit(character)})
    by_text = dict(zip(TEXTS, cells[1:], strict=True))
    assert {text: by_text[text] for text in readable} == {text: text.translate(replaced) for text in readable}
    assert warnings == {"CONTROL_REPLACED": sum(any(map(unfit, text)) for text in TEXTS)}


def unfit(character: str) -> bool:
    return (
        (character < " " and character not in "\t\n\r")
        or character in "\ufffe\uffff"
        or "\ud800" <= character <= "\udfff"
    )


def test_carriage_returns_and_literal_escapes_are_escaped(out):
    column_of(out, ["a\rb", "_x000D_", "__x0041__", "_x00g1_", "_x0041_x0042_"])
    assert raw_texts(out)[2:] == [
        *("a_x000D_b", "_x005F_x000D_", "__x005F_x0041__", "_x00g1_", "_x005F_x0041_x005F_x0042_")
    ]


@pytest.mark.parametrize(
    ("text", "kept"), [("a" * 32_768, 32_767), ("🚀" * 16_384, 16_383), ("a" + "🚀" * 16_383, 16_384)]
)
def test_long_cells_are_cut_by_utf16_units_between_characters(out, text, kept):
    cells, warnings = column_of(out, [text])
    assert cells[1] == text[:kept]
    assert warnings == ({"CELL_CUT": 1} if kept < len(text) else {})


def test_what_is_no_number_to_a_spreadsheet_is_text(out):
    cells, warnings = column_of(out, [float("nan"), float("inf"), 10**15, -(10**15), 10**15 - 1, 1e300], "decimal")
    assert cells[1:] == ["nan", "inf", "1000000000000000", "-1000000000000000", 10**15 - 1, 1e300]
    assert warnings == {"NOT_FINITE_AS_TEXT": 2, "DIGITS_AS_TEXT": 2}


def test_booleans_are_booleans_and_other_integers_are_not(out):
    cells, _ = column_of(out, [1, 0, 2, None, 10**16], "boolean")
    assert [repr(cell) for cell in cells[1:]] == ["True", "False", "2.0", "''", "'10000000000000000'"]


@pytest.mark.parametrize(
    ("zone", "clock"),
    [("UTC", dt.datetime(2024, 10, 27, 0, 30)), ("Asia/Tokyo", dt.datetime(2024, 10, 27, 9, 30))],
)
def test_zoned_timestamps_are_the_wall_clock_of_the_chosen_zone(out, zone, clock):
    cells, _ = column_of(out, ["2024-10-27 02:30:00+02:00"], "timestamp_tz", Options(timezone=zone))
    assert cells == [f"v ({zone})", clock]


def test_a_timestamp_that_differs_from_its_column_stays_text(out):
    told = ["2024-01-01 10:00:00", "2024-01-01 10:00:00Z", "2024-01-01"]
    assert column_of(out, told[:2], "timestamp")[0] == ["v (UTC)", told[0], dt.datetime(2024, 1, 1, 10)]
    written(out, "xlsx", columns(v="timestamp"), [(text,) for text in told], size=1)
    (rows,) = sheets(out).values()
    assert rows == [["v"], [dt.datetime(2024, 1, 1, 10)], [told[1]], [dt.date(2024, 1, 1)]]


def test_fractions_of_a_second_are_kept(out):
    cells, _ = column_of(out, ["2024-01-01 10:00:00.250", "2024-01-01 10:00:00.1234567"], "timestamp")
    assert cells[1:] == [dt.datetime(2024, 1, 1, 10, 0, 0, 250000), "2024-01-01 10:00:00.1234567"]


def test_clock_times_are_times(out):
    assert column_of(out, ["12:30", "23:59:59", "24:00:01", "7:00"], "time")[0][1:] == [
        *(dt.time(12, 30), dt.time(23, 59, 59), "24:00:01", "7:00")
    ]


def test_sheets_follow_each_other_each_with_its_header(out, monkeypatch):
    monkeypatch.setattr(xlsx, "SHEET_ROWS", 1000)
    written(out, "xlsx", columns(n="integer"), [(n,) for n in range(2500)], title="Air: quality/day")
    found = sheets(out)
    assert {name: (rows[0], len(rows)) for name, rows in found.items()} == {
        **{"Air quality day": (["n"], 1001), "Air quality day 2": (["n"], 1001), "Air quality day 3": (["n"], 501)}
    }
    assert [row[0] for rows in found.values() for row in rows[1:]] == [*range(2500)]


def test_a_sheet_rolls_over_before_zip_needs_more_than_32_bits(out, monkeypatch):
    monkeypatch.setattr(xlsx, "ENTRY_LIMIT", 10_000)
    written(out, "xlsx", columns(n="integer"), [(n,) for n in range(2000)])
    found = sheets(out)
    assert len(found) > 1
    assert [row[0] for rows in found.values() for row in rows[1:]] == [*range(2000)]


def test_the_header_is_frozen_bold_and_filtered(out):
    written(out, "xlsx", columns(a="text", b="text"), [("x", "a much longer text than that")] * 3)
    sheet = openpyxl.load_workbook(out).active
    assert (sheet.freeze_panes, sheet.auto_filter.ref, sheet["A1"].font.b) == ("A2", "A1:B4", True)
    assert sheet.column_dimensions["B"].width > sheet.column_dimensions["A"].width


def test_the_workbook_says_what_it_is(out):
    written(out, "xlsx", columns(a="text"), [("x",)] * 3, title='Air & "water"', parameters={"day": "2024-02-29"})
    book = openpyxl.load_workbook(out)
    assert book.sheetnames == ['Air & "water"']
    custom = {item.name: item.value for item in book.custom_doc_props.props}
    assert (book.properties.title, custom["Dataset"], custom["Rows"]) == ('Air & "water"', "awkward", 3)
    assert custom["Parameters"] == '{"day": "2024-02-29"}'
    assert custom["Exported at"] == dt.datetime(2026, 7, 29, 10, 30)


@pytest.mark.parametrize(
    ("title", "number", "name"),
    [
        *(("Air", 1, "Air"), ("a/b:c*d?e[f]g\\h", 1, "a b c d e f g h"), ("'quoted'", 1, "quoted"), ("", 1, "Data")),
        *(
            ("History", 1, "Data"),
            ("x" * 40, 12, "x" * 28 + " 12"),
            ("🚀" * 20, 1, "🚀" * 15),
            ("\0\ud800", 2, "Data 2"),
        ),
    ],
)
def test_sheet_names_are_valid(title, number, name):
    assert sheet_name(title, number) == name


def test_zip_entries_are_whole(out):
    written(out, "xlsx", columns(n="integer"), [(n,) for n in range(5000)])
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        assert all(info.extract_version == 20 for info in archive.infolist())


def test_too_many_columns_are_refused(out):
    with pytest.raises(AttemptFailed, match="FORMAT_LIMIT"):
        written(out, "xlsx", [Column(f"c{n}", Kind.TEXT) for n in range(16_385)], [])


@pytest.mark.parametrize("kind", list(Kind))
def test_every_awkward_cell_is_one_row_in_every_kind_of_column(out, kind):
    written(out, "xlsx", columns(a=kind, b="integer"), [(cell, 7) for cell in CELLS])
    (rows,) = sheets(out).values()
    assert [row[1] for row in rows[1:]] == [7] * len(CELLS)
