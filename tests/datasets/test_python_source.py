"""Python sources: an entry point opens them, what they give is checked, what they raise stays in the log."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import example_source
import pytest
from patience import PATIENCE

from webapp.datasets.catalog import check_catalog, load_catalog
from webapp.datasets.columns import Column, Kind
from webapp.datasets.reading import BadUrl, Cancelled
from webapp.datasets.sources import describe, missing, normalized, open_rows, preview
from webapp.domain.errors import AttemptFailed, ErrorCode

METADATA = "Metadata-Version: 2.1\nName: tides\nVersion: 1.0\n"
ENTRY_POINTS = "[exportdesk.sources]\ntides = example_source:open_source\n"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """As pip would leave it: a dist-info folder on the path."""
    folder = tmp_path / "site" / "tides-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(METADATA, "utf-8")
    (folder / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    monkeypatch.syspath_prepend(str(folder.parent))


@pytest.fixture
def source(monkeypatch):
    """Registers a callable or an object as the source `thing`."""

    def register(opened) -> str:
        opener = opened if callable(opened) else lambda options, sql, params: opened
        entry = SimpleNamespace(name="thing", load=lambda: opener)

        def found(*, group: str, name: str):
            return [entry] if (group, name) == ("exportdesk.sources", "thing") else []

        monkeypatch.setattr(metadata, "entry_points", found)
        return "python://thing?a=1&b=x%20y"

    return register


def table(rows, columns=(("n", "integer"), ("t", "text")), **more) -> SimpleNamespace:
    return SimpleNamespace(columns=columns, batches=lambda size: rows, **more)


def read(url, **params) -> list[tuple]:
    with open_rows(url, "anything at all", params) as reader:
        return [row for batch in reader.batches() for row in batch]


def failure(url) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        read(url)
    return caught.value


def test_the_worked_example_is_found_by_its_entry_point(installed, tmp_path):
    url = normalized("python://tides?step=6&rows=1203", tmp_path)
    assert [column.kind for column in describe(url, "", {"station": "Husum"})] == [
        *(Kind.TEXT, Kind.TIMESTAMP_TZ, Kind.DECIMAL)
    ]
    with open_rows(url, "", {"station": "Husum"}) as reader:
        assert (reader.count(1), reader.estimate()) == (1203, 1203)
        batches = [*reader.batches(500)]
    assert [len(batch) for batch in batches] == [500, 500, 203]
    assert batches[0][1] == ("Husum", datetime(2026, 1, 1, 6, tzinfo=UTC), Decimal("0.1"))
    assert batches[0][4][2] is None
    short = preview(url, "", {"station": "Husum"}, rows=2, seconds=PATIENCE)
    assert (len(short.rows), short.truncated) == (2, True)


def test_its_docstring_is_what_an_installed_package_and_a_catalog_say(installed, tmp_path):
    words = example_source.__doc__ or ""
    assert ENTRY_POINTS.split(" = ")[1].strip() in words
    path = tmp_path / "exportdesk.toml"
    path.write_text(dedent(words.partition("a catalog would use it so:\n")[2]), "utf-8")
    catalog = load_catalog(path, {})
    assert check_catalog(catalog, path) == []
    dataset = catalog.datasets["tides"]
    rows = preview(catalog.source_of(dataset).url, dataset.sql, {"station": "Husum"}, rows=1, seconds=PATIENCE).rows
    assert rows == (("Husum", datetime(2026, 1, 1, tzinfo=UTC), Decimal(0)),)


def test_the_url_names_an_entry_point_that_is_there(installed, tmp_path):
    assert missing("python://tides?rows=1") is None
    assert missing("python://waves") == "No installed package has an entry point waves of exportdesk.sources."
    for url in ("python://waves", "python://", "python:///tides", "python://tides/x", "python://tides#x"):
        with pytest.raises(BadUrl):
            normalized(url, tmp_path)
    assert failure("python://waves").code is ErrorCode.SOURCE_UNREACHABLE


def test_options_query_and_parameters_reach_the_source(source):
    given = []

    def opener(options, sql, params):
        given.append((options, sql, params))
        return table([[(1, "x")]])

    assert read(source(opener), since=3) == [(1, "x")]
    assert given == [({"a": "1", "b": "x y"}, "anything at all", {"since": 3})]


def test_batches_of_any_size_and_rows_of_any_sequence_come_out_in_the_size_asked_for(source):
    url = source(table([[], [[1, "a"]], [(2, "b"), (3, None)], ((n, "c") for n in range(4, 8))]))
    with open_rows(url, "", {}) as reader:
        assert [len(batch) for batch in reader.batches(3)] == [3, 3, 1]
    assert read(source(table([]))) == []


def test_columns_may_be_ours_and_doubled_names_are_told_apart(source):
    url = source(table([], [Column("n", Kind.INTEGER), ("n", "json")]))
    assert describe(url, "", {}) == (Column("n", Kind.INTEGER), Column("n_2", Kind.JSON))


def broken(size):
    yield [(1, "a")]
    raise ConnectionError("password=hunter2")


def refuse(options, sql, params):
    raise LookupError("password=hunter2")


@pytest.mark.parametrize(
    "opened",
    [
        refuse,
        table([[(1, "a"), (2,)]]),
        table([[(1, "a", "b")]]),
        table([7]),
        table([], [("n", "number")]),
        table([], []),
        SimpleNamespace(columns=[("n", "integer"), ("t", "text")], batches=broken),
        SimpleNamespace(),
    ],
)
def test_what_a_source_does_wrong_is_one_sentence_and_a_trace_in_the_log(source, opened, capfd):
    error = failure(source(opened))
    assert error.code is ErrorCode.QUERY_ERROR
    assert error.details == {"detail": "the Python source thing failed; the desk's log says why"}
    assert "Traceback" in capfd.readouterr().err


def test_a_source_may_use_our_errors(source):
    def opener(options, sql, params):
        raise AttemptFailed(ErrorCode.BAD_PARAMETER, detail="no such station")

    assert failure(source(opener)).code is ErrorCode.BAD_PARAMETER


def test_count_estimate_cancel_and_close_are_optional_and_cannot_fail_a_read(source, capfd):
    with open_rows(source(table([])), "", {}) as reader:
        assert (reader.count(1), reader.estimate()) == (None, None)
    fail = SimpleNamespace(columns=[("n", "integer")], batches=lambda size: [[(1,)]], count=lambda: 1 / 0)
    with open_rows(source(fail), "", {}) as reader:
        assert reader.count(1) is None
        assert [*reader.batches()] == [[(1,)]]
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_close_is_called_once_it_is_over_and_when_it_failed(source):
    closed = []
    with open_rows(source(table([], close=lambda: closed.append(1))), "", {}):
        pass
    failure(source(table([], [("n", "number")], close=lambda: closed.append(2))))
    assert closed == [1, 2]


class Waiting:
    """Waits for something that does not come until it is cancelled."""

    columns = (("n", "integer"),)

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def batches(self, size):
        yield [(1,)] * size
        self.stopped.wait(20)
        raise ConnectionAbortedError

    def cancel(self):
        self.stopped.set()


def test_cancelling_ends_a_source_that_waits(source):
    with open_rows(source(Waiting()), "", {}) as reader:
        timer = threading.Timer(0.1, reader.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            for _ in reader.batches():
                pass
        timer.join()


def test_an_endless_source_is_cancelled_between_batches(source):
    def endless(size):
        while True:
            yield [(1, "x")] * size

    with open_rows(
        source(SimpleNamespace(columns=[("n", "integer"), ("t", "text")], batches=endless)), "", {}
    ) as reader:
        batches = reader.batches()
        next(batches)
        reader.cancel()
        with pytest.raises(Cancelled):
            next(batches)


def test_a_preview_that_waits_runs_into_its_limit(source):
    class Late(Waiting):
        def batches(self, size):
            self.stopped.wait(20)
            return iter(())

    with pytest.raises(AttemptFailed) as caught:
        preview(source(Late()), "", {}, rows=5, seconds=0.2)
    assert (caught.value.code, caught.value.details) == (ErrorCode.TIMEOUT, {"limit": "0.2 s"})


def test_the_example_is_where_the_reader_says():
    from webapp.datasets.readers import python

    assert "tests/datasets/example_source.py" in (python.__doc__ or "")
    assert Path(example_source.__file__).parts[-3:] == ("tests", "datasets", "example_source.py")
