"""The child process of one attempt: source → writer → file. Run as `python -m worker.child` by the supervisor.

It starts before there is work (a warm spare), loads what the scheme and the format in its arguments need, reads one
assignment from its standard input and ends with it. When its standard input closes, the supervisor is gone and it
ends at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from webapp.datasets import sources
from webapp.datasets.reading import Cancelled, RowReader
from webapp.domain import limits
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.exports import Phase
from webapp.domain.formats import API_DEFAULTS, Options, parse_options
from worker.formats import writer_for
from worker.formats.csv import CsvWriter
from worker.formats.writer import WARNINGS, Metadata, Writer
from worker.messages import CANCEL, Assignment, Failed, Finished, Message, Progressed, decode_assignment, encode
from worker.sink import Sink

PR_SET_PDEATHSIG = 1
OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Rows are tuples, which the collector counts and never has to collect."""
MIB = 1024 * 1024
DATA_PAGES = 5
"""The field of /proc/self/statm that counts data and stack."""


class Attempt:
    """One attempt and how far it is."""

    def __init__(self, assignment: Assignment, pipe: int) -> None:
        self.assignment = assignment
        self.cancelled = threading.Event()
        self._pipe = pipe
        self._reader: RowReader | None = None
        self._sink: Sink | None = None
        self._writer: Writer | None = None
        self._rows = 0
        self._total: int | None = None
        self._told = 0.0

    def cancel(self) -> None:
        """From the control thread: stops the query in the source."""
        self.cancelled.set()
        if self._reader is not None:
            self._reader.cancel()

    def run(self) -> None:
        """Says how it ended, whatever happens. A failed or cancelled attempt leaves no file."""
        try:
            self._send(self._write_file())
        except Cancelled:
            self._abort()
        except AttemptFailed as failure:
            self._abort()
            self._send(Failed(failure.code.value, failure.details))
        except MemoryError:
            self._abort()
            self._send(Failed(ErrorCode.OUT_OF_MEMORY.value, {"limit": f"{self.assignment.memory_mib} MiB"}))
        except Exception:
            self._abort()
            traceback.print_exc()
            self._send(Failed(ErrorCode.INTERNAL.value, {}))

    def _write_file(self) -> Finished:
        order = self.assignment
        self._tell(Phase.COUNTING)
        with sources.open_rows(order.url, order.sql, order.params) as reader:
            self._reader = reader
            if self.cancelled.is_set():
                raise Cancelled
            options = parse_options(order.options, order.format, defaults=API_DEFAULTS)
            if options.columns:
                reader.choose(options.columns)
            self._begin_counting(reader)
            self._sink = sink = Sink(Path(order.path), compression=options.compression, max_bytes=order.max_bytes)
            self._writer = writer = writer_for(order.format)
            writer.open(reader.columns, options, sink, self._metadata())
            for rows in _written(reader, writer, options):
                if self.cancelled.is_set():
                    raise Cancelled
                self._rows += rows
                self._check_rows(max(self._rows, self._total or 0))
                self._tell(Phase.READING)
            self._tell(Phase.WRITING, now=True)
            warnings = [(warning.code, warning.message, warning.count) for warning in writer.close()]
            if reader.invalid_text:
                warnings.append(("INVALID_TEXT", WARNINGS["INVALID_TEXT"], reader.invalid_text))
            result = sink.close()
        return Finished(self._rows, result.size, result.sha256, warnings)

    def _begin_counting(self, reader: RowReader) -> None:
        """Before the first row, so that too many are refused at once; or beside the reading where the source can."""
        if reader.counts_beside:
            threading.Thread(target=self._count, args=(reader,), daemon=True).start()
        else:
            self._count(reader)
            self._check_rows(self._total or 0)

    def _count(self, reader: RowReader) -> None:
        """What halts the count halts the reading too, which says so."""
        with contextlib.suppress(Cancelled, AttemptFailed):
            self._total = reader.count(limits.COUNT_SECONDS)

    def _metadata(self) -> Metadata:
        order = self.assignment
        return Metadata(order.dataset, order.title, datetime.now(UTC), order.shown_params)

    def _check_rows(self, rows: int) -> None:
        limit = self.assignment.row_limit
        if limit is not None and rows > limit:
            raise AttemptFailed(ErrorCode.TOO_MANY_ROWS, limit=f"{limit:,}")

    def _tell(self, phase: Phase, *, now: bool = False) -> None:
        """At most four times a second."""
        moment = time.monotonic()
        if now or moment - self._told >= limits.PROGRESS_PUBLISHED_EVERY:
            self._told = moment
            written = self._sink.size if self._sink else 0
            self._send(Progressed(phase.value, self._rows, self._total, written))

    def _send(self, message: Message) -> None:
        os.write(self._pipe, encode(message))

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        if self._sink is not None:
            self._sink.abort()


def _written(reader: RowReader, writer: Writer, options: Options) -> Iterator[int]:
    """Everything the reader has goes to the writer; gives the number of rows of each portion."""
    if isinstance(writer, CsvWriter) and (lines := reader.raw_csv(options)) is not None:
        for data, rows in lines:
            writer.write_lines(data)
            yield rows
        return
    for batch in reader.batches():
        writer.write(batch)
        yield len(batch)


def limit_memory(mib: int) -> None:
    """An allocation beyond this raises MemoryError in the child instead of pulling the machine down.

    What counts is private, writable memory: address space that is only reserved, or shared with a file, does not.
    """
    if sys.platform != "linux":
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[DATA_PAGES])
    limit = pages * resource.getpagesize() + mib * MIB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def die_with_parent() -> None:
    """The end of standard input tells it too, but a thread hears that only when the GIL is free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def listen(attempt: Attempt) -> None:
    """The control thread: `cancel` stops the query, the end of the input ends the process."""
    for line in sys.stdin.buffer:
        if line == CANCEL:
            attempt.cancel()
    os._exit(1)


def get_ready(kind: Sequence[str]) -> None:
    """For a source of this scheme and this format; the assignment may be of another kind."""
    if len(kind) == 2:
        scheme, format = kind
        with contextlib.suppress(ImportError, AttemptFailed):
            sources.load(scheme)
            writer_for(format)


def private_pipe() -> int:
    """The pipe to the supervisor, moved off standard output so that nothing printed can get into it."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    return pipe


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    pipe = private_pipe()
    get_ready(sys.argv[1:])
    line = sys.stdin.buffer.readline()
    if not line:
        return
    assignment = decode_assignment(line)
    attempt = Attempt(assignment, pipe)
    threading.Thread(target=listen, args=(attempt,), daemon=True).start()
    limit_memory(assignment.memory_mib)
    with contextlib.suppress(BrokenPipeError):
        attempt.run()
    os._exit(0)


if __name__ == "__main__":
    main()
