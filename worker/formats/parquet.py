"""Parquet: typed columns, zstd, row groups of 128 k rows; a column whose cells do not fit its type becomes text."""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC
from importlib import import_module
from typing import Any, BinaryIO, cast

from webapp.datasets.columns import Column, Row
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options
from worker.formats.parquet_columns import TEXT, ParquetColumn
from worker.formats.parquet_parts import Originals, Stream, merged, schema_of
from worker.formats.writer import ByteSink, Metadata, TakingBack, Tally

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")

GROUP_ROWS = 128 * 1024
GROUP_BYTES = 48 * 1024 * 1024
"""Rows with very long cells end a row group earlier, so that memory stays flat."""

ENCODING = {"version": "2.6", "compression": "zstd", "dictionary_pagesize_limit": 64 * 1024}
"""Columns of few values have a dictionary; those of many give it up early, which saves 30 MiB."""

M_MMAP_THRESHOLD = -3
LARGE = 128 * 1024
"""Bytes from which on what is freed goes back to the system: the buffers of row groups would leave holes otherwise.
Other formats take and free such blocks all the time, and would pay for it."""

Cells = list[tuple[frozenset[type], Any]]
"""One column's batches: the types of the cells and an array of them."""


class ParquetWriter:
    """Cells become Arrow arrays batch by batch; a thread types, encodes and compresses one row group at a time."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, "parquet")
        self._storing: Future[None] | None = None
        self._stream: Stream | None = None
        self._file: Any = None
        self._parts: list[BinaryIO] = []
        self._originals: Originals | None = None

    def open(self, columns: Sequence[Column], options: Options, sink: ByteSink, context: Metadata) -> None:
        _give_back_large_blocks()
        pa.set_cpu_count(1)
        pa.set_memory_pool(pa.system_memory_pool())  # the smallest of the three, and under a limit of address space
        self._sink = cast(TakingBack, sink)
        self._context = context
        self._tally = Tally()
        self._columns = [ParquetColumn(column, self._tally) for column in columns]
        self._originals = Originals(self._sink)
        self._groups = self._rows = 0
        self._begin_group()

    def write(self, batch: list[Row]) -> None:
        while batch:
            taken = batch[: GROUP_ROWS - self._group_rows]
            batch = batch[len(taken) :]
            for column, cells, values in zip(self._columns, self._group, zip(*taken, strict=True), strict=True):
                types, array = column.natural(values)
                cells.append((types, array))
                self._group_bytes += array.nbytes
            self._group_rows += len(taken)
            if self._group_rows >= GROUP_ROWS or self._group_bytes >= GROUP_BYTES:
                self._pass_on()

    def close(self) -> tuple[FormatWarning, ...]:
        self._pass_on()
        self._wait()
        self._worker.shutdown()
        file = self._merged() if self._parts else self._file or self._started()
        file.add_key_value_metadata(self._metadata())
        file.close()
        self._let_go()
        return self._tally.warnings()

    def abort(self) -> None:
        if self._stream:
            self._stream.dead = True
        self._worker.shutdown(cancel_futures=True)
        with contextlib.suppress(Exception):
            if self._file is not None:
                self._file.close()
        self._let_go()

    def _begin_group(self) -> None:
        self._group: list[Cells] = [[] for _ in self._columns]
        self._group_rows = self._group_bytes = 0

    def _pass_on(self) -> None:
        """One row group waits at most: the reader is held up until the one before is stored."""
        self._wait()
        if self._group_rows:
            self._rows += self._group_rows
            self._storing = self._worker.submit(self._store, self._group)
            self._begin_group()

    def _wait(self) -> None:
        if self._storing is not None:
            self._storing.result()
            self._storing = None

    def _store(self, group: list[Cells]) -> None:
        """In the thread. A column of another type than before needs a new file; at the end all become one."""
        arrays = [self._typed(index, cells) for index, cells in enumerate(group)]
        schema = schema_of(self._columns)
        if self._file is not None and schema != self._file.schema:
            self._end_part()
        file = self._file or self._started()
        file.write_table(pa.table(arrays, schema=schema), row_group_size=GROUP_ROWS)
        self._groups += 1

    def _typed(self, index: int, cells: Cells) -> Any:
        column = self._columns[index]
        types = frozenset[type]().union(*(types for types, _ in cells))
        raw = _joined(column, [array for _, array in cells])
        cells.clear()
        typed = column.typed(types, raw)
        if types and not column.is_exact(raw, typed):
            assert self._originals
            self._originals.put(index, self._groups, column.texts(raw))
        return typed

    def _started(self) -> Any:
        self._stream = Stream(self._sink)
        self._file = pq.ParquetWriter(self._stream, schema_of(self._columns), **ENCODING)
        return self._file

    def _end_part(self) -> None:
        self._file.close()
        self._file = None
        self._parts.append(self._sink.restart())

    def _merged(self) -> Any:
        self._end_part()
        file = self._started()
        assert self._originals
        for table in merged(self._parts, self._columns, self._originals):
            file.write_table(table, row_group_size=GROUP_ROWS)
        return file

    def _metadata(self) -> dict[str, str]:
        context = self._context
        return {
            "dataset": context.dataset,
            "title": context.title,
            "parameters": json.dumps(dict(context.parameters), ensure_ascii=False, default=str),
            "created_at": context.created_at.astimezone(UTC).isoformat(timespec="seconds"),
            "rows": str(self._rows),
        }

    def _let_go(self) -> None:
        for part in self._parts:
            part.close()
        if self._originals:
            self._originals.close()


def _give_back_large_blocks() -> None:
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)


def _joined(column: ParquetColumn, arrays: list[Any]) -> Any:
    """One array; where batches came in different types, all of it as text."""
    types = {array.type for array in arrays if array.null_count < len(array)}
    wanted = types.pop() if len(types) == 1 else TEXT
    chunks = [array if array.type == wanted else _as(column, array, wanted) for array in arrays]
    return pa.concat_arrays(chunks)


def _as(column: ParquetColumn, array: Any, wanted: Any) -> Any:
    return pa.nulls(len(array), wanted) if array.null_count == len(array) else column.texts(array)
