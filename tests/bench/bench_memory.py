"""Peak memory of the exporting process at 100,000 and at 5,000,000 rows, for each format. The rival is itself."""

from __future__ import annotations

import argparse

from data import sqlite_file
from race import export, workplace

FORMATS = ("csv", "jsonl", "xlsx", "parquet")
MOST_MIB, MOST_RATIO = 300, 1.2
BLOCK = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=100_000)
    parser.add_argument("--many", type=int, default=5_000_000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    chosen = parser.parse_args()
    url = f"sqlite:///{sqlite_file(BLOCK)}"
    worst = 0.0
    print(f"{'':10}{f'MiB at {chosen.few:,}':>18}{f'MiB at {chosen.many:,}':>18}{'ratio':>8}{'rows/s':>10}")
    for format in chosen.formats:
        path = workplace(f"memory.{format}")
        few, many = (export(url, _query(rows), format, path) for rows in (chosen.few, chosen.many))
        path.unlink()
        ratio = many.peak / few.peak
        worst = max(worst, ratio)
        print(
            f"{format:10}{few.peak:18.0f}{many.peak:18.0f}{ratio:8.2f}{chosen.many / many.wall:10,.0f}"
            f"{'' if many.peak <= MOST_MIB and ratio <= MOST_RATIO else '  OVER BUDGET'}",
            flush=True,
        )
    print(f"the source: a SQLite file of {BLOCK:,} rows, read again and again by UNION ALL")
    print(f"ratio, worst: {worst:.2f}")


def _query(rows: int) -> str:
    every = " UNION ALL ".join(["SELECT * FROM rows"] * -(-rows // BLOCK))
    return f"SELECT * FROM ({every}) LIMIT {rows}"


if __name__ == "__main__":
    main()
