"""JSON Lines from SQLite. Rival: DuckDB 1.5, `COPY … (FORMAT json)` of the same file by its sqlite extension."""

from __future__ import annotations

from pathlib import Path

from check import json_differences
from data import sqlite_file
from race import Runner, arguments, export, has_rival, race, report, rival, workplace

SQL = "SELECT * FROM rows"
RIVALS = str(Path(__file__).with_name("rivals.py"))


def main() -> None:
    chosen = arguments(__doc__ or "").parse_args()
    path = sqlite_file(chosen.rows)
    ours, theirs = workplace("ours.jsonl"), workplace("theirs.jsonl")
    runners = [Runner("exportdesk", lambda: export(f"sqlite:///{path}", SQL, "jsonl", ours))]
    python = chosen.rival_python
    if has_rival(python, "duckdb, duckdb_extension_sqlite_scanner"):
        command = [python, RIVALS, "duckdb", str(path), str(theirs), "json"]
        runners.append(Runner("DuckDB", lambda: rival(command)))
    race(runners, chosen.rounds)
    lost = json_differences(path, ours)
    report(
        runners,
        chosen.rows,
        f"rival: rivals.py duckdb (COPY (SELECT * FROM sqlite_scan(FILE, 'rows')) TO FILE (FORMAT json)); it drops\n"
        f"the offsets of zoned timestamps.\ncells of ours that differ from the source: {lost} of {chosen.rows * 12:,}",
    )


if __name__ == "__main__":
    main()
