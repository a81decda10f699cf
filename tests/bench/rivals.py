"""What the rivals do, each in a process of its own and by a Python that has them installed.

`rivals.py duckdb SOURCE OUT FORMAT` or `rivals.py xlsxwriter SOURCE OUT`
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path


def duckdb(source: str, out: str, format: str) -> None:
    """DuckDB 1.5 with its sqlite extension from PyPI (`duckdb-extension-sqlite-scanner`), nothing downloaded."""
    import duckdb
    import duckdb_extension_sqlite_scanner

    folder = Path(duckdb_extension_sqlite_scanner.__file__).parent
    (extension,) = folder.rglob("sqlite_scanner.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"COPY (SELECT * FROM sqlite_scan('{source}', 'rows')) TO '{out}' (FORMAT {format})")


def xlsxwriter(source: str, out: str) -> None:
    """Row by row in constant memory; bytes as base64 and big integers as text, for it has nothing else for them."""
    from base64 import b64encode

    import xlsxwriter

    book = xlsxwriter.Workbook(out, {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    sheet = book.add_worksheet()
    cursor = sqlite3.connect(source).execute("SELECT * FROM rows")
    sheet.write_row(0, 0, [column[0] for column in cursor.description])
    for number, row in enumerate(cursor, 1):
        sheet.write_row(number, 0, [b64encode(cell).decode() if type(cell) is bytes else cell for cell in row])
    book.close()


if __name__ == "__main__":
    {"duckdb": duckdb, "xlsxwriter": xlsxwriter}[sys.argv[1]](*sys.argv[2:])
