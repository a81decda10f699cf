"""Types of PostgreSQL: which kind of column each is, and how a cell is asked for so that it reads as files want it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webapp.datasets.columns import Kind

KINDS: Mapping[int, Kind] = {
    16: Kind.BOOLEAN,
    17: Kind.BYTES,
    20: Kind.INTEGER,
    21: Kind.INTEGER,
    23: Kind.INTEGER,
    26: Kind.INTEGER,  # oid
    700: Kind.FLOAT,
    701: Kind.FLOAT,
    1700: Kind.DECIMAL,
    1082: Kind.DATE,
    1083: Kind.TIME,
    1266: Kind.TIME,  # with time zone
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMP_TZ,
    114: Kind.JSON,
    3802: Kind.JSON,  # jsonb
    2950: Kind.UUID,
}
"""By the numbers that built-in types have in every PostgreSQL."""

TEXT, VARCHAR = 25, 1043
PLAIN_TEXTS = frozenset({TEXT, VARCHAR})
NATIVE = frozenset({16, 17, 20, 21, 23, 26, 700, 701})
"""Types whose every value Python can hold. All others are read as text: dates know infinity and years before Christ."""

FORMULA_CODES = ", ".join(str(ord(character)) for character in "=+-@\t\r")


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of the query: its type's number, its kind, and the name by which it is asked for."""

    oid: int
    kind: Kind
    name: str

    @property
    def value(self) -> str:
        """The SQL of what readers of rows get. Offsets are +00:00, which more programs take than +00."""
        match self.kind:
            case Kind.TIMESTAMP_TZ:
                return self._zoned(f"{self.name}::text")
            case Kind.LIST:
                return f"to_json({self.name})::text"
            case _:
                return self.name

    def csv(self, *, safe: bool) -> str:
        """The SQL of the CSV field, the same text that `worker.formats.csv` makes of the value."""
        match self.kind:
            case Kind.BOOLEAN:
                return f"{self.name}::text"
            case Kind.BYTES:
                return rf"replace(encode({self.name}, 'base64'), E'\n', '')"
            case Kind.DATE | Kind.TIMESTAMP if safe:
                return self._safe_endless()
            case Kind.TIMESTAMP_TZ if safe:
                return self._zoned(self._safe_endless())
            case Kind.TEXT | Kind.JSON if safe:
                return self._safe_text()
            case _:
                return self.value

    def _zoned(self, otherwise: str) -> str:
        name = self.name
        return (
            f"CASE WHEN {name} >= '0001-01-01 00:00:00+00' AND {name} < 'infinity' THEN {name}::text || ':00' "
            f"ELSE {otherwise} END"
        )

    def _safe_endless(self) -> str:
        return f"CASE WHEN {self.name} = '-infinity' THEN '''-infinity' ELSE {self.name}::text END"

    def _safe_text(self) -> str:
        """`concat` is the text that a value has in a result; a cast would cut the blanks of `char(n)`."""
        name = self.name
        if self.oid in PLAIN_TEXTS:
            return f"CASE WHEN ascii({name}) IN ({FORMULA_CODES}) THEN '''' || {name} ELSE {name} END"
        return (
            f"CASE WHEN {name} IS NULL THEN NULL WHEN ascii(concat({name})) IN ({FORMULA_CODES}) "
            f"THEN concat('''', {name}) ELSE concat({name}) END"
        )
