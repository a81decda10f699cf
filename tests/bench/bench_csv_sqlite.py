"""CSV from SQLite. Rival: the `sqlite3` shell, `.mode csv`."""

from __future__ import annotations

import shutil

from check import csv_differences
from data import sqlite_file
from race import Runner, arguments, export, race, report, rival, workplace

SQL = "SELECT * FROM rows"


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--shell", default="sqlite3", help="the sqlite3 program")
    parser.add_argument("--text", choices=("raw", "safe"), default="raw", help="the option csv_text")
    chosen = parser.parse_args()
    path = sqlite_file(chosen.rows)
    ours, theirs = workplace("ours.csv"), workplace("theirs.csv")
    runners = [Runner("exportdesk", lambda: export(f"sqlite:///{path}", SQL, "csv", ours, csv_text=chosen.text))]
    if shutil.which(chosen.shell):
        script = f".mode csv\n.headers on\n.output {theirs}\n{SQL};\n".encode()
        runners.append(Runner("sqlite3 shell", lambda: rival([chosen.shell, "-readonly", str(path)], given=script)))
    else:
        print(f"rival missing: there is no {chosen.shell}")
    race(runners, chosen.rounds)
    lost = csv_differences(path, ours, safe=chosen.text == "safe")
    report(
        runners,
        chosen.rows,
        f"rival: {chosen.shell} -readonly FILE, with .mode csv, .headers on, .output FILE, {SQL}; it cuts floats\n"
        f"to 15 digits (before 3.53), prints blobs as raw bytes and ends text at NUL.\n"
        f"cells of ours that differ from the source: {lost} of {chosen.rows * 12:,}",
    )


if __name__ == "__main__":
    main()
