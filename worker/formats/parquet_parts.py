"""Parts of a Parquet file that were written before a column's type changed, and how they become one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, BinaryIO

from webapp.domain.errors import storage_failure
from worker.formats.parquet_columns import TEXT, ParquetColumn
from worker.formats.writer import TakingBack

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")


class Stream:
    """A sink as pyarrow wants a file. Once `dead`, it takes everything and keeps nothing."""

    def __init__(self, sink: TakingBack) -> None:
        self._sink = sink
        self._position = 0
        self.dead = False
        self.closed = False

    def write(self, data: Any) -> int:
        if not self.dead:
            self._sink.write(bytes(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """The sink flushes when it is closed."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class Originals:
    """Cells as exact text, by column and row group, for what a typed column cannot give back (`12:30` is 12:30:00).

    They lie in one unnamed file, which is gone when closed.
    """

    def __init__(self, sink: TakingBack) -> None:
        self._sink = sink
        self._file: BinaryIO | None = None
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        self._schema = pa.schema([("text", TEXT)])
        self._options = pa.ipc.IpcWriteOptions(compression="lz4")

    def put(self, column: int, group: int, texts: Any) -> None:
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, self._schema, options=self._options) as stream:
            stream.write_table(pa.table([texts], schema=self._schema))
        try:
            self._append((column, group), buffer.getvalue().to_pybytes())
        except OSError as error:
            raise storage_failure(error) from error

    def get(self, column: int, group: int) -> Any:
        """None where there are none."""
        if self._file is None or (column, group) not in self._places:
            return None
        start, size = self._places[column, group]
        self._file.seek(start)
        return pa.ipc.open_stream(self._file.read(size)).read_all().column(0)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, place: tuple[int, int], data: bytes) -> None:
        if self._file is None:
            self._file = self._sink.scratch()
        self._places[place] = self._file.tell(), len(data)
        self._file.write(data)


def merged(parts: Sequence[BinaryIO], columns: Sequence[ParquetColumn], originals: Originals) -> Iterator[Any]:
    """The row groups of all parts, every column in the type that it has now."""
    schema = schema_of(columns)
    group = 0
    for part in parts:
        with pq.ParquetFile(part) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, use_threads=False)
                arrays = [
                    _converted(table.column(index), column, originals, index, group)
                    for index, column in enumerate(columns)
                ]
                yield pa.table(arrays, schema=schema)
                group += 1


def schema_of(columns: Sequence[ParquetColumn]) -> Any:
    return pa.schema([(column.name, column.arrow_type) for column in columns])


def _converted(array: Any, column: ParquetColumn, originals: Originals, index: int, group: int) -> Any:
    wanted = column.arrow_type
    if array.type == wanted:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    if wanted != TEXT:
        return array.cast(wanted)  # to a decimal of more places
    texts = originals.get(index, group)
    return column.texts(array) if texts is None else texts
