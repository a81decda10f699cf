"""XLSX from SQLite. Rival: XlsxWriter with `constant_memory`, fed the same rows."""

from __future__ import annotations

from pathlib import Path

from check import xlsx_differences
from data import sqlite_file
from race import Runner, arguments, export, has_rival, race, report, rival, workplace

SQL = "SELECT * FROM rows"
RIVALS = str(Path(__file__).with_name("rivals.py"))


def main() -> None:
    chosen = arguments(__doc__ or "", rows=300_000).parse_args()
    path = sqlite_file(chosen.rows)
    ours, theirs = workplace("ours.xlsx"), workplace("theirs.xlsx")
    runners = [Runner("exportdesk", lambda: export(f"sqlite:///{path}", SQL, "xlsx", ours))]
    python = chosen.rival_python
    if has_rival(python, "xlsxwriter"):
        command = [python, RIVALS, "xlsxwriter", str(path), str(theirs)]
        runners.append(Runner("XlsxWriter", lambda: rival(command)))
    race(runners, chosen.rounds)
    lost = xlsx_differences(path, ours)
    report(
        runners,
        chosen.rows,
        f"rival: rivals.py xlsxwriter (constant_memory, write_row of sqlite3 rows); it rounds integers beyond\n"
        f"15 digits and leaves dates as text.\n"
        f"cells of ours that differ from the source, read by calamine: {lost} of {chosen.rows * 12:,}",
    )


if __name__ == "__main__":
    main()
