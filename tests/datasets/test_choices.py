"""Choices that a query gives: their limits, how long they are kept, and finding one among thousands."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from webapp.datasets import choices as module
from webapp.datasets.choices import ChoiceLists, read_choices, search
from webapp.datasets.declaration import Choice
from webapp.domain.errors import AttemptFailed, ErrorCode

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "air.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE airports (code TEXT, name TEXT)")
        rows = [("JFK", "John F. Kennedy"), ("ZRH", "Zürich"), ("EWR", None), ("", "blank"), (None, "none"),
                ("JFK", "again"), ("007", "")]  # fmt: skip
        connection.executemany("INSERT INTO airports VALUES (?, ?)", rows)
        connection.commit()
    return path


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_one_column_is_the_value_and_two_are_value_and_label(source: Path) -> None:
    assert read_choices(url(source), "SELECT code, name FROM airports") == (
        Choice("JFK", "John F. Kennedy"),
        Choice("ZRH", "Zürich"),
        Choice("EWR", "EWR"),
        Choice("007", "007"),
    )
    assert read_choices(url(source), "SELECT 42 UNION SELECT 7") == (Choice("7", "7"), Choice("42", "42"))


def test_ten_thousand_values_are_enough(source: Path) -> None:
    assert len(read_choices(url(source), NUMBERS.format(10_000))) == 10_000
    with pytest.raises(AttemptFailed) as caught:
        read_choices(url(source), NUMBERS.format(10_001))
    assert "more than 10,000 values" in caught.value.details["detail"]


def test_a_list_that_takes_too_long_is_given_up(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.domain.limits.CHOICES_SECONDS", 0.05)
    with pytest.raises(AttemptFailed) as caught:
        read_choices(url(source), f"SELECT max(i) FROM ({NUMBERS.format(10**12)})")
    assert caught.value.code is ErrorCode.TIMEOUT


def test_a_list_is_kept_for_a_minute(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    lists, sql = ChoiceLists(), "SELECT code FROM airports WHERE code > 'A'"
    before = lists.get(url(source), sql)
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("DELETE FROM airports")
        connection.commit()
    now += 59
    assert lists.get(url(source), sql) == before
    now += 2
    assert lists.get(url(source), sql) == ()


def test_a_failure_is_kept_for_seconds(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    lists, hidden = ChoiceLists(), source.with_name("away.db")
    source.rename(hidden)
    for _ in range(2):
        with pytest.raises(AttemptFailed):
            lists.get(url(source), "SELECT code FROM airports")
        hidden.rename(source) if hidden.exists() else None
    now += 6
    assert lists.get(url(source), "SELECT 'x'") == (Choice("x", "x"),)
    assert len(lists.get(url(source), "SELECT code FROM airports")) == 4


def test_many_that_ask_at_once_wait_for_one_query(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    read = module.read_choices

    def counted(url: str, sql: str) -> tuple[Choice, ...]:
        asked.append(sql)
        return read(url, sql)

    monkeypatch.setattr(module, "read_choices", counted)
    lists = ChoiceLists()
    threads = [threading.Thread(target=lists.get, args=(url(source), "SELECT code FROM airports")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1


AIRPORTS = [Choice("A1", "New York Newark"), Choice("NEW", "Lakefront"), Choice("B2", "York"), Choice("C3", "ZÜRICH")]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ["A1", "NEW", "B2", "C3"]),
        ("new", ["NEW", "A1"]),
        ("york", ["B2", "A1"]),
        ("newark york", ["A1"]),
        ("zürich", ["C3"]),
        ("100%", []),
    ],
)
def test_every_word_must_fit_and_beginnings_come_first(text: str, values: list[str]) -> None:
    found = search(AIRPORTS, text, limit=10)
    assert ([choice.value for choice in found.items], found.total) == (values, len(values))


def test_how_many_fit_is_told_when_not_all_are_given() -> None:
    found = search(AIRPORTS, "", limit=2)
    assert (len(found.items), found.total) == (2, 4)
