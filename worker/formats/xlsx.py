"""XLSX as a stream: sheets are built a column at a time and deflated beside, in flat memory however many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any
from zoneinfo import ZoneInfo

from webapp.datasets.columns import Column, Row
from webapp.domain.errors import TOO_MANY_COLUMNS, AttemptFailed, ErrorCode
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options
from webapp.domain.limits import SHEET_ROWS
from worker.formats import xlsx_parts as parts
from worker.formats.cells import plain_text
from worker.formats.lane import Lane
from worker.formats.writer import ByteSink, Metadata, Tally
from worker.formats.xlsx_cells import ColumnCells, inline_text
from worker.formats.xlsx_text import CELL_UNITS, utf16_cut, xml_text
from worker.formats.zipstream import ENTRY_LIMIT, ZipStream

SHEET_COLUMNS = 16_384
ROWS_AT_ONCE = 2000
BYTES_AT_ONCE = 4 * 1024 * 1024
"""Of XML, going by the rows before: as many rows as this holds are built together."""

WIDTH_ROWS = 100
EARLY_ROWS = 5000
"""Written cell by cell: Arrow is not worth its import before."""

LEAST_WIDTH, MOST_WIDTH = 8, 60


class XlsxWriter:
    def __init__(self) -> None:
        self._lane: Lane[bytes | memoryview] | None = None

    def open(self, columns: Sequence[Column], options: Options, sink: ByteSink, context: Metadata) -> None:
        if len(columns) > SHEET_COLUMNS:
            raise AttemptFailed(ErrorCode.FORMAT_LIMIT, detail=TOO_MANY_COLUMNS.format(limit=SHEET_COLUMNS))
        self._names = [column.name for column in columns]
        self._zone = options.timezone
        self._context = context
        self._tally = Tally()
        zone = ZoneInfo(options.timezone)
        self._columns = [
            ColumnCells(letters(number), column.kind, zone, self._tally) for number, column in enumerate(columns, 1)
        ]
        self._rows = self._sheets = self._sheet_rows = self._sheet_bytes = 0
        self._waiting: list[Row] = []
        self._at_once = 1
        self._widths: list[int] = []
        self._zip = ZipStream(sink, at=context.created_at)
        self._zip.add("_rels/.rels", parts.ROOT_RELATIONS.encode())
        self._zip.add("xl/styles.xml", parts.STYLES.encode())
        self._lane = Lane[bytes | memoryview](self._zip.write)

    def write(self, batch: list[Row]) -> None:
        self._waiting += batch
        if len(self._waiting) >= self._at_once:
            self._write_waiting()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        while waiting:
            self._ready_sheet(waiting)
            taken = min(len(waiting), ROWS_AT_ONCE, SHEET_ROWS - self._sheet_rows)
            self._write_rows(waiting[:taken])
            waiting = waiting[taken:]

    def close(self) -> tuple[FormatWarning, ...]:
        self._write_waiting()
        if not self._sheets:
            self._ready_sheet([])
        self._finish_sheet()
        self.abort()
        names = [parts.sheet_name(self._context.title, number) for number in range(1, self._sheets + 1)]
        for name, text in (
            ("xl/workbook.xml", parts.workbook(names)),
            ("xl/_rels/workbook.xml.rels", parts.workbook_relations(self._sheets)),
            ("docProps/core.xml", parts.core_properties(self._context)),
            ("docProps/app.xml", parts.APP),
            ("docProps/custom.xml", parts.custom_properties(self._context, self._rows)),
            ("[Content_Types].xml", parts.content_types(self._sheets)),
        ):
            self._zip.add(name, text.encode())
        self._zip.close()
        return self._tally.warnings()

    def abort(self) -> None:
        if self._lane:
            self._lane.close()

    def _ready_sheet(self, batch: list[Row]) -> None:
        """A sheet with room for a row; the first one is laid out by what the first batch holds."""
        if self._sheets and self._sheet_rows < SHEET_ROWS and self._sheet_bytes < ENTRY_LIMIT:
            return
        if self._sheets:
            self._finish_sheet()
        else:
            self._lay_out(batch)
        self._sheets += 1
        self._sheet_rows = self._sheet_bytes = 0
        self._zip.start(f"xl/worksheets/sheet{self._sheets}.xml")
        self._put(self._head().encode())

    def _lay_out(self, batch: list[Row]) -> None:
        values: list[tuple[Any, ...]] = [*zip(*batch, strict=True)] if batch else [() for _ in self._names]
        for column, cells in zip(self._columns, values, strict=True):
            column.look(cells)
        self._widths = [
            width([name, *map(plain_text, (cell for cell in cells[:WIDTH_ROWS] if cell is not None))])
            for name, cells in zip(self._header(), values, strict=True)
        ]

    def _header(self) -> list[str]:
        """Zoned timestamps are told as wall clocks, so their header says where the clock hangs."""
        return [
            f"{name} ({self._zone})" if column.zoned else name
            for name, column in zip(self._names, self._columns, strict=True)
        ]

    def _head(self) -> str:
        selected = ' tabSelected="1"' if self._sheets == 1 else ""
        cols = "".join(
            f'<col min="{number}" max="{number}" width="{wide}" customWidth="1"/>'
            for number, wide in enumerate(self._widths, 1)
        )
        names = (inline_text(utf16_cut(xml_text(name), CELL_UNITS)) for name in self._header())
        cells = "".join(
            f'<c r="{letters(number)}1" s="{parts.STYLE_HEADER}{body}' for number, body in enumerate(names, 1)
        )
        return (
            f'{parts.HEAD}<worksheet xmlns="{parts.MAIN}"><sheetViews><sheetView{selected} workbookViewId="0">'
            '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>'
            f'<sheetFormatPr defaultRowHeight="15"/><cols>{cols}</cols><sheetData><row r="1">{cells}</row>'
        )

    def _write_rows(self, batch: list[Row]) -> None:
        first, before = self._sheet_rows + 2, self._sheet_bytes
        if self._rows < EARLY_ROWS:
            self._put(self._rows_by_cell(batch, first))
        else:
            for data in self._rows_at_once(batch, first):
                self._put(data)
            self._at_once = min(ROWS_AT_ONCE, BYTES_AT_ONCE * len(batch) // (self._sheet_bytes - before))
        self._sheet_rows += len(batch)
        self._rows += len(batch)

    def _rows_at_once(self, batch: list[Row], first: int) -> Iterable[memoryview]:
        from worker.formats.xlsx_batches import rows_at_once  # Arrow costs as much as the early rows

        return rows_at_once(batch, first, self._columns)

    def _rows_by_cell(self, batch: list[Row], first: int) -> bytes:
        numbers = [*map(str, range(first, first + len(batch)))]
        pieces: list[Iterable[str]] = [repeat('<row r="', len(batch)), numbers, repeat('">', len(batch))]
        for column, values in zip(self._columns, zip(*batch, strict=True), strict=True):
            bodies = zip(numbers, column.bodies(values), strict=True)
            pieces.append([body and f"{column.start}{number}{body}" for number, body in bodies])
        rows = map(str.encode, map("".join, zip(*pieces, strict=True)))  # one wide row makes not all of them wide
        return b"</row>".join(rows) + b"</row>"

    def _finish_sheet(self) -> None:
        corner = f"{letters(len(self._names))}{self._sheet_rows + 1}"
        self._put(f'</sheetData><autoFilter ref="A1:{corner}"/></worksheet>'.encode())
        assert self._lane
        self._lane.drain()
        self._zip.finish()

    def _put(self, data: bytes | memoryview) -> None:
        self._sheet_bytes += len(data)
        assert self._lane
        self._lane.put(data)


def letters(number: int) -> str:
    """A column's name: 1 is A, 27 is AA."""
    name = ""
    while number:
        number, rest = divmod(number - 1, 26)
        name = chr(65 + rest) + name
    return name


def width(texts: Sequence[str]) -> int:
    """In characters: the longest line of the first rows, within reason."""
    longest = max((len(line) for text in texts for line in text[:1000].splitlines()), default=0)
    return min(max(longest + 2, LEAST_WIDTH), MOST_WIDTH)
