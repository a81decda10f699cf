"""The demo source: the same each time, true to its zones, and as awkward as real data."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from webapp.datasets.catalog import demo_catalog, demo_path
from webapp.datasets.demo import Offsets, make_demo
from webapp.datasets.demo_words import read_words
from webapp.datasets.parameters import bind_values, parse_params

TODAY = date(2026, 11, 29)
ORDERS = 2_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    make_demo(demo_path(folder), orders=ORDERS, today=TODAY)
    return folder


@pytest.fixture
def shop(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(demo_path(folder))) as connection:
        yield connection


def exported(folder: Path, shop: sqlite3.Connection, name: str, **raw: Any) -> list[tuple[Any, ...]]:
    dataset = demo_catalog(folder).datasets[name]
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    return shop.execute(dataset.sql, bind_values(dataset, parse_params(dataset, raw, today=TODAY, now=now))).fetchall()


def test_the_same_seed_gives_the_same_rows(folder: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again.db", tmp_path / "other.db"
    make_demo(again, orders=ORDERS, today=TODAY)
    make_demo(other, orders=ORDERS, today=TODAY, seed=1)
    assert again.read_bytes() == demo_path(folder).read_bytes()
    assert other.read_bytes() != again.read_bytes()


def test_nothing_but_the_whole_file_appears(tmp_path: Path) -> None:
    make_demo(tmp_path / "made" / "demo.db", orders=10)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["demo.db"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError("full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="full"):
        make_demo(tmp_path / "demo.db", orders=10)
    assert list(tmp_path.iterdir()) == []


def test_by_default_every_row_comes(folder: Path, shop: sqlite3.Connection) -> None:
    counts = [len(exported(folder, shop, name)) for name in ("orders", "customers", "products")]
    assert counts == [ORDERS, 5_000, 1_000]


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"since": "2026-06-01"}, "ordered_at >= '2026-06-01'"),
        ({"country": "DE"}, "country = 'DE'"),
        ({"status": ["new", "paid"]}, "status IN ('new', 'paid')"),
        ({"min_total": "250.50"}, "total >= 250.5"),
        ({"priority": "on"}, "priority"),
        ({"priority": False}, "NOT priority"),
    ],
)
def test_each_filter_of_the_orders_works(
    folder: Path, shop: sqlite3.Connection, raw: dict[str, Any], where: str
) -> None:
    wanted = [number for (number,) in shop.execute(f"SELECT id FROM orders WHERE {where} ORDER BY id")]
    assert [row[0] for row in exported(folder, shop, "orders", **raw)] == wanted
    assert 0 < len(wanted) < ORDERS


def test_products_are_found_by_name_and_by_sku(folder: Path, shop: sqlite3.Connection) -> None:
    assert len(exported(folder, shop, "products", search="TEAPOT")) == 200
    assert exported(folder, shop, "products", search="100%") == []
    sku = shop.execute("SELECT sku FROM products WHERE sku LIKE '0%'").fetchone()[0]
    assert len(sku) == 6
    assert [row[1] for row in exported(folder, shop, "products", search=sku)] == [sku]


def test_choices_offer_what_the_rows_hold(folder: Path) -> None:
    _, country, status, *_ = demo_catalog(folder).datasets["orders"].parameters
    assert {choice.value for choice in country.choices} == {place.country for place in read_words().places}
    assert len(status.choices) == 6


@pytest.mark.parametrize("zone", sorted({place.zone for place in read_words().places}))
def test_offsets_are_those_of_the_zone_at_every_hour(zone: str) -> None:
    start, end = datetime(2024, 11, 1, tzinfo=UTC), datetime(2026, 11, 28, tzinfo=UTC)
    offsets, info = Offsets(zone, start, end), ZoneInfo(zone)
    for hour in range(int((end - start).total_seconds()) // 3600):
        at = start + timedelta(hours=hour)
        expected = at.astimezone(info)
        assert offsets.local(int(at.timestamp()))[1] == expected.isoformat(), zone


def test_the_second_of_the_change_is_right() -> None:
    change = datetime(2026, 3, 29, 1, tzinfo=UTC)
    offsets = Offsets("Europe/Berlin", change - timedelta(days=5, hours=7), change + timedelta(days=5))
    assert offsets.local(int(change.timestamp()) - 1)[1] == "2026-03-29T01:59:59+01:00"
    assert offsets.local(int(change.timestamp()))[1] == "2026-03-29T03:00:00+02:00"


def test_orders_carry_the_offset_of_their_city_and_lie_in_two_years(shop: sqlite3.Connection) -> None:
    zones = {place.city: ZoneInfo(place.zone) for place in read_words().places}
    rows = shop.execute("SELECT city, ordered_at, shipped_on FROM orders ORDER BY id").fetchall()
    instants: list[datetime] = []
    for city, ordered_at, shipped_on in rows:
        at = datetime.fromisoformat(ordered_at)
        assert at.astimezone(zones[city]).utcoffset() == at.utcoffset()
        assert TODAY - timedelta(days=730) < at.date() < TODAY
        assert shipped_on is None or at.date() < date.fromisoformat(shipped_on) <= TODAY
        instants.append(at)
    assert instants == sorted(instants)
    assert {row[1][-6:] for row in rows} >= {"+01:00", "+02:00", "-07:00", "+05:30", "+05:45", "+08:00"}


def test_the_values_are_awkward_and_add_up(shop: sqlite3.Connection) -> None:
    notes = {note for (note,) in shop.execute("SELECT DISTINCT note FROM orders")}
    assert {None, ""} < notes
    texts = "".join(filter(None, notes))
    assert all(sign in texts for sign in (",", '"', "\n", "\r\n", "=SUM", "\t", "👩‍👩‍👧‍👦", "请"))
    names = "".join(name for (name,) in shop.execute("SELECT name FROM customers"))
    assert all(letter in names for letter in "łøüğ李محمΕ髙김शĐ𠮷")
    assert shop.execute("SELECT count(*) FROM orders WHERE order_number NOT LIKE '0%'").fetchone() == (0,)
    assert shop.execute(
        "SELECT count(*) FROM orders WHERE abs(total - quantity * unit_price * (1 - discount)) > 0.0051"
    ).fetchone() == (0,)
    emails = shop.execute("SELECT email FROM customers").fetchall()
    assert len(set(emails)) == 5_000
    assert all(email.isascii() and email.endswith(("@example.com", "@example.org")) for (email,) in emails)
