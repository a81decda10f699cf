"""CSV from PostgreSQL. Rival: `psql` with `\\copy (…) TO FILE (FORMAT csv, HEADER)`."""

from __future__ import annotations

import csv
import shutil

from data import POSTGRES_URL, postgres_table
from race import Runner, arguments, export, race, report, rival, workplace

FLAG, BLOB = 7, 11
"""Columns that PostgreSQL tells in its own way: `t`, `\\x00ff`."""


def main() -> None:
    chosen = arguments(__doc__ or "").parse_args()
    sql = f"SELECT * FROM {postgres_table(chosen.rows)}"
    ours, theirs = workplace("ours.csv"), workplace("theirs.csv")
    runners = [Runner("exportdesk", lambda: export(POSTGRES_URL, sql, "csv", ours))]
    program = shutil.which("psql")
    copy = f"\\copy ({sql}) TO '{theirs}' (FORMAT csv, HEADER)"
    if program:
        runners.append(Runner("psql", lambda: rival([program, "-X", POSTGRES_URL, "-c", copy])))
        runners.append(Runner("no spare child", lambda: export(POSTGRES_URL, sql, "csv", ours, spare=False)))
    else:
        print("rival missing: there is no psql")
    race(runners, chosen.rounds)
    notes = f"rival: psql -c '\\copy (SELECT * FROM table) TO FILE (FORMAT csv, HEADER)'; {_compared(ours, theirs)}"
    report(runners, chosen.rows, notes)


def _compared(ours: object, theirs: object) -> str:
    """Cell by cell; the rival loses nothing, it only tells booleans and bytes in PostgreSQL's own way."""
    with open(str(ours), newline="", encoding="utf-8") as a, open(str(theirs), newline="", encoding="utf-8") as b:
        columns: dict[int, int] = {}
        for mine, other in zip(csv.reader(a), csv.reader(b), strict=True):
            for number, (cell, same) in enumerate(zip(mine, other, strict=True)):
                if cell != same and number not in (FLAG, BLOB):
                    columns[number] = columns.get(number, 0) + 1
    return f"cells that differ, booleans and bytes left out: {columns or 0}"


if __name__ == "__main__":
    main()
