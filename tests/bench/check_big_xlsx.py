"""An XLSX of three million rows: three sheets, opened by calamine, openpyxl and LibreOffice headless.

LibreOffice says on its error output when it has to repair a file, and then converts nothing or less.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from race import export, workplace

SQL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
SELECT i AS id, 'text, "quoted" & <marked> ' || i % 977 AS note, nullif(i % 7, 0) / 4.0 AS quarter FROM n
"""
SHEET_ROWS = 1_048_576
MINUTES = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    rows = parser.parse_args().rows
    source, path = workplace("empty.db"), workplace("big.xlsx")
    source.touch()
    lap = export(f"sqlite:///{source}", SQL.format(rows=rows), "xlsx", path)
    print(f"written: {rows:,} rows, {path.stat().st_size:,} bytes, {lap.wall:.0f} s, peak {lap.peak:.0f} MiB")
    data = [min(SHEET_ROWS - 1, rows - start) for start in range(0, rows, SHEET_ROWS - 1)]
    wanted = [count + 1 for count in data]
    readers: tuple[Callable[[Path], list[int] | None], ...] = (by_calamine, by_openpyxl, by_libreoffice)
    for reader in readers:
        found = reader(path)
        verdict = "missing" if found is None else "right" if found == wanted else "WRONG"
        print(f"{reader.__name__[3:]}: rows of each sheet {found}: {verdict}", flush=True)


def by_calamine(path: Path) -> list[int]:
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_path(str(path))
    return [sum(1 for _ in book.get_sheet_by_name(name).iter_rows()) for name in book.sheet_names]


def by_openpyxl(path: Path) -> list[int]:
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True)
    return [sum(1 for _ in sheet.iter_rows(max_col=1, values_only=True)) for sheet in book]


def by_libreoffice(path: Path) -> list[int] | None:
    """Every sheet as CSV: the lines are counted."""
    program = shutil.which("soffice")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        filter = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1"
        command = [program, f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", filter]
        done = subprocess.run(
            [*command, "--outdir", folder, str(path)], capture_output=True, text=True, timeout=MINUTES * 60
        )
        said = [line for line in (done.stdout + done.stderr).splitlines() if "repair" in line or "rror" in line]
        assert not said, said
        files = sorted(Path(folder).glob("*.csv"), key=lambda file: (len(file.name), file.name))
        return [sum(1 for _ in file.open(encoding="utf-8")) for file in files]


if __name__ == "__main__":
    main()
