"""DuckDB databases (`duckdb:///shop.duckdb`) and files of Parquet, CSV and JSON (`files:///trips/*.parquet`).

Files are one table named `files`; queries speak DuckDB's SQL. Three slashes start at the catalog's folder, four are
absolute. CSV columns get types from the first 100,000 rows; a cell further down that would lose something by its type
(`004`) is an error, and `files:///codes.csv?types=text` leaves all columns text. DuckDB itself is the extra
`exportdesk[duckdb]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webapp.datasets.reading import BadUrl
from webapp.domain.errors import AttemptFailed, ErrorCode

if TYPE_CHECKING:
    from webapp.datasets.readers.duckdb_reading import DuckdbReader

DATABASE, FILES = "duckdb:///", "files:///"
ALL_TEXT = "?types=text"
HERE = Path()
NEEDED = "needs DuckDB: install the desk with its extra, as by pip install '.[duckdb]'"

FUNCTIONS: Mapping[str, str] = {
    ".parquet": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
"""DuckDB's reader by the end of a file's name; texts may be gzipped."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows are: a database's path, or a pattern of files with DuckDB's function that reads them."""

    pattern: str
    function: str | None
    all_text: bool = False

    @property
    def paths(self) -> list[str]:
        """Regular files only, in the order of their names; a name with a wild card in it is also itself."""
        if self.function is None or Path(self.pattern).is_file():
            return [self.pattern]
        return sorted(path for path in glob(self.pattern, recursive=True) if Path(path).is_file())


def normalized(url: str, folder: Path) -> str:
    """Relative files are in the folder. Raises BadUrl, also when DuckDB is not installed."""
    scheme = _scheme(url)
    if scheme is None:
        raise BadUrl(f"url must start with {DATABASE} or {FILES}, as in {FILES}trips/*.parquet.")
    place = place_of(url, folder)
    if place.pattern == str(folder):
        raise BadUrl("url names no file.")
    if scheme == FILES and place.function is None:
        raise BadUrl(f"url must end in one of {', '.join(FUNCTIONS)}; texts may have .gz behind that.")
    if place.all_text and place.function != "read_csv":
        raise BadUrl(f"{ALL_TEXT} is for CSV files only.")
    if find_spec("duckdb") is None:
        raise BadUrl(f"This source {NEEDED}.")
    return scheme + place.pattern + (ALL_TEXT if place.all_text else "")


def missing(url: str) -> str | None:
    place = place_of(url)
    if _scheme(url) == DATABASE:
        return None if Path(place.pattern).is_file() else f"There is no file {place.pattern}."
    return None if any(Path(path).is_file() for path in place.paths) else f"There is no file {place.pattern}."


def open_reader(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> DuckdbReader:
    if find_spec("duckdb") is None:
        raise AttemptFailed(ErrorCode.QUERY_ERROR, detail=f"its source {NEEDED}")
    from webapp.datasets.readers.duckdb_reading import DuckdbReader  # only who reads pays for the import

    if _scheme(url) is None or missing(url):
        raise AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    return DuckdbReader(place_of(url), sql, params, seconds=seconds)


def place_of(url: str, folder: Path = HERE) -> Place:
    """In the folder; but three slashes are easily taken for an absolute path, so where only that exists, that is it."""
    scheme = _scheme(url) or ""
    text = url.removeprefix(scheme)
    all_text = scheme == FILES and text.endswith(ALL_TEXT)
    text = text.removesuffix(ALL_TEXT) if all_text else text
    function = _function(text) if scheme == FILES else None
    near, far = Place(str(folder / text), function, all_text), Place(f"/{text.lstrip('/')}", function, all_text)
    return far if _exists(far) and not _exists(near) else near


def _exists(place: Place) -> bool:
    return any(Path(path).is_file() for path in place.paths)


def _scheme(url: str) -> str | None:
    return next((scheme for scheme in (DATABASE, FILES) if url.startswith(scheme)), None)


def _function(text: str) -> str | None:
    name = text.lower().removesuffix(".gz")
    function = next((function for end, function in FUNCTIONS.items() if name.endswith(end)), None)
    return None if function == "read_parquet" and text.lower().endswith(".gz") else function
