"""Peak memory of the exporting process at 100,000 and at 5,000,000 rows, by source and format. The rival is itself."""

from __future__ import annotations

import argparse

from race import export, workplace
from sources import BLOCK, KINDS, source

FORMATS = ("csv", "jsonl", "xlsx", "parquet")
MOST_MIB, MOST_RATIO = 300, 1.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=100_000)
    parser.add_argument("--many", type=int, default=5_000_000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--sources", nargs="+", choices=KINDS, default=("sqlite",))
    chosen = parser.parse_args()
    worst = 0.0
    print(f"{'':20}{f'MiB at {chosen.few:,}':>18}{f'MiB at {chosen.many:,}':>18}{'ratio':>8}{'rows/s':>10}", flush=True)
    for kind in chosen.sources:
        for format in chosen.formats:
            path = workplace(f"memory.{format}")
            few, many = (export(*source(kind, rows), format, path) for rows in (chosen.few, chosen.many))
            path.unlink()
            ratio = many.peak / few.peak
            worst = max(worst, ratio)
            print(
                f"{f'{kind} → {format}':20}{few.peak:18.0f}{many.peak:18.0f}{ratio:8.2f}"
                f"{chosen.many / many.wall:10,.0f}"
                f"{'' if many.peak <= MOST_MIB and ratio <= MOST_RATIO else '  OVER BUDGET'}",
                flush=True,
            )
    print(f"the sources: {BLOCK:,} rows, read again and again by UNION ALL; the Python source computes its own")
    print(f"ratio, worst: {worst:.2f}")


if __name__ == "__main__":
    main()
