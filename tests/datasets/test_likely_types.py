"""What type the form proposes for a parameter that it has just found in a query."""

from __future__ import annotations

import pytest

from webapp.datasets.columns import Column, Kind
from webapp.datasets.declaration import ParameterType
from webapp.datasets.likely_types import likely_type

COLUMNS = [
    Column("id", Kind.INTEGER),
    Column("Name", Kind.TEXT),
    Column("price", Kind.DECIMAL),
    Column("made", Kind.DATE),
    Column("sold_at", Kind.TIMESTAMP),
    Column("told_at", Kind.TEXT),
    Column("epoch", Kind.INTEGER),
    Column("Stück / Karton", Kind.INTEGER),
    Column('the "net" price', Kind.DECIMAL),
]


@pytest.mark.parametrize(
    ("condition", "name", "expected"),
    [
        ("id <= :most", "most", "integer"),
        ('t."id" = :id', "id", "integer"),
        (":most >= t.ID", "most", "integer"),
        ("id BETWEEN :low AND :high", "low", "integer"),
        ("id BETWEEN :low AND :high", "high", "integer"),
        ("(:most IS NULL OR id <= :most)", "most", "integer"),
        ("price > :floor", "floor", "number"),
        ("made >= :from_there", "from_there", "date"),
        ("sold_at >= :moment", "moment", "datetime"),
        ("sold_at >= :since", "since", "date"),
        ("told_at >= :since", "since", "date"),
        ("unseen_at < :until", "until", "date"),
        ("told_at >= :start_date", "start_date", "date"),
        ("epoch >= :since", "since", "integer"),
        ("1 = 1 LIMIT :rows", "rows", "integer"),
        ("whatever = :n::int", "n", "integer"),
        ("whatever = CAST(:day AS date)", "day", "date"),
        ("whatever = CAST(:n AS text)", "n", "string"),
        ("name = :name", "name", "string"),
        ("unseen = :number", "number", "string"),
        ("name LIKE '%' || :id || '%' AND id > 1", "id", "string"),
        ("name LIKE :since", "since", "string"),
        ("id = :x OR name = :x", "x", "string"),
        ("name = 'id = :since' /* id = :since */ AND f(:since)", "since", "string"),
        ("id = :most_of", "most", "string"),
        ("id <= coalesce(:most, id)", "most", "string"),
        ("name = 'x' AND \"Stück / Karton\" > :pieces", "pieces", "integer"),
        ("t.[Stück / Karton] > :pieces", "pieces", "integer"),
        (":pieces < `t`.`Stück / Karton`", "pieces", "integer"),
        ('"the ""net"" price" BETWEEN :low AND :high', "high", "number"),
        ('"Karton" > :pieces', "pieces", "string"),
    ],
)
def test_the_type_of_a_parameter_is_what_its_use_leaves_no_doubt_of(condition: str, name: str, expected: str) -> None:
    assert likely_type(f"SELECT * FROM things t WHERE {condition}", name, COLUMNS) == ParameterType(expected)
