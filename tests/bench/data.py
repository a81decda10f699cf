"""The rows that every bench exports: twelve columns of the values that break exports. The same rows in every run."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("EXPORTDESK_BENCH_FOLDER", Path(tempfile.gettempdir()) / "exportdesk-bench"))
POSTGRES_URL = os.environ.get("EXPORTDESK_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5499/postgres")
VERSION = 1
"""Part of the file names: other rows want another number."""

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("id", "INTEGER PRIMARY KEY", "bigint PRIMARY KEY"),
    ("big", "INTEGER", "bigint"),
    ("code", "TEXT", "text"),
    ("name", "TEXT", "text"),
    ("note", "TEXT", "text"),
    ("amount", "DECIMAL(12,2)", "numeric(12,2)"),
    ("ratio", "REAL", "double precision"),
    ("flag", "BOOLEAN", "boolean"),
    ("day", "DATE", "date"),
    ("at", "TIMESTAMP", "timestamptz"),
    ("city", "TEXT", "text"),
    ("blob", "BLOB", "bytea"),
)
"""Name, type in SQLite, type in PostgreSQL."""

NAMES = ("王小明", "Zoë 🚀", 'O\'Neil, "Pat"', "Ana María", "Sven Åberg", "Jane Doe", "𠮷野家", "Müller & Söhne")
NOTES = (
    *("a plain note of some words", None, "", "line\nbreak in the middle", 'she said "no", twice', "=1+1"),
    *("semi;colon", "tab\there", "-5", "another plain note, with a comma", "delivered on time", "naïve façade"),
)
CITIES = ("Berlin", "São Paulo", "東京", "New York", "Łódź", "Wien", "Paris", "Oslo", None, "Rio de Janeiro")
OFFSETS = ("+00:00", "+02:00", "-05:00", "+05:30")


def rows(count: int) -> Iterator[tuple[Any, ...]]:
    first_day, first_moment = date(2019, 1, 1), datetime(2019, 1, 1)
    for i in range(count):
        mixed = i * 2654435761 % 4294967296
        note = NOTES[mixed % 12]
        yield (
            i + 1,
            None if i % 13 == 0 else 9007199254740993 + mixed * 2_140_000_000,
            f"{i % 100000:07d}",
            NAMES[mixed % 8],
            note and f"{note} {i}",
            None if i % 17 == 0 else mixed % 10_000_000 / 100,
            None if i % 19 == 0 else mixed / 4294967291,
            None if i % 23 == 0 else i % 2,
            str(first_day + timedelta(days=i % 2500)),
            str(first_moment + timedelta(seconds=mixed % 200_000_000)) + OFFSETS[i % 4],
            CITIES[i % 10],
            mixed.to_bytes(8, "big") if i % 4 == 0 else None,
        )


def sqlite_file(count: int) -> Path:
    """Made once, by a process of its own: what makes it must not count as memory of what reads it."""
    path = FOLDER / f"rows-{VERSION}-{count}.db"
    if not path.exists():
        subprocess.run([sys.executable, __file__, str(count)], check=True)
    return path


def postgres_table(count: int) -> str:
    """Its name; filled from the same rows if it is not there yet."""
    import psycopg

    name = f"exportdesk_bench_{VERSION}_{count}"
    with psycopg.connect(POSTGRES_URL) as connection:
        if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
            columns = ", ".join(f'"{column}" {kind}' for column, _, kind in COLUMNS)
            connection.execute(f"CREATE TABLE {name} ({columns})")
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows(count):
                    copy.write_row([bool(cell) if i == 7 and cell is not None else cell for i, cell in enumerate(row)])
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        connection.execute(f"VACUUM ANALYZE {name}")
    return name


def _make(path: Path, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    with sqlite3.connect(unfinished) as connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(f'{name} {kind}' for name, kind, _ in COLUMNS)})")
        connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(COLUMNS))})", rows(count))
    connection.close()
    unfinished.rename(path)


if __name__ == "__main__":
    number = int(sys.argv[1])
    _make(FOLDER / f"rows-{VERSION}-{number}.db", number)
