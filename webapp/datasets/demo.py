"""Makes the demo source: a shop in SQLite, whose values are as awkward as real ones."""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

from webapp.datasets.demo_words import Words, email_name, read_words

CUSTOMERS = 5_000
DAYS = 730
SEED = 20_260_131
EPOCH = date(1970, 1, 1).toordinal()
CURRENCIES = {"GB": "GBP", "CH": "CHF", "DK": "DKK", "SE": "SEK", "US": "USD", "CA": "CAD", "AU": "AUD"}
EURO = {"DE", "AT", "FR", "ES", "PT", "GR", "IE"}
STATUSES = {"delivered": 70, "shipped": 9, "returned": 6, "cancelled": 7, "paid": 5, "new": 3}
SHIPPED = {"delivered", "shipped", "returned"}
DISCOUNTS = {0: 70, 5: 12, 10: 10, 15: 5, 25: 3}
QUANTITIES = {1: 60, 2: 20, 3: 9, 4: 5, 6: 3, 12: 2, 144: 1}
HOURS = (2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 12, 12, 14, 12, 11, 11, 12, 14, 17, 20, 22, 18, 11, 5)
"""How many orders come in which hour of the customer's day, against each other."""

SCHEMA = """
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, country TEXT NOT NULL, city TEXT NOT NULL,
  time_zone TEXT NOT NULL, newsletter BOOLEAN NOT NULL, signed_up_on DATE NOT NULL, note TEXT);
CREATE TABLE products (
  id INTEGER PRIMARY KEY, sku TEXT NOT NULL, name TEXT NOT NULL, category TEXT NOT NULL,
  price DECIMAL(10,2) NOT NULL, weight_kg REAL, in_stock INTEGER NOT NULL, active BOOLEAN NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, order_number TEXT NOT NULL, customer_name TEXT NOT NULL, email TEXT NOT NULL,
  country TEXT NOT NULL, city TEXT NOT NULL, product TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
  unit_price DECIMAL(10,2) NOT NULL, discount DECIMAL(4,2) NOT NULL, total DECIMAL(10,2) NOT NULL,
  currency TEXT NOT NULL, status TEXT NOT NULL, priority BOOLEAN NOT NULL,
  ordered_at TIMESTAMP WITH TIME ZONE NOT NULL, shipped_on DATE, note TEXT);
"""
Customer = tuple[int, str, str, str, str, str, int, str, str | None]
"""Id, name, e-mail, country, city, time zone, newsletter, day of signing up, note."""
Product = tuple[int, str, str, str, float, float | None, int, int]
"""Id, SKU, name, category, price, weight, stock, whether it is sold."""
Row = tuple[object, ...]


class Offsets:
    """The UTC offsets of one zone over a span of time: asking zoneinfo for each order is too slow."""

    def __init__(self, zone: str, start: datetime, end: datetime) -> None:
        self._zone = ZoneInfo(zone)
        self._changes: list[int] = []
        self._offsets = [self._at(int(start.timestamp()))]
        for second in range(int(start.timestamp()), int(end.timestamp()) + 86400, 86400):
            if self._at(second) != self._offsets[-1]:
                self._changes.append(self._change(second - 86400, second))
                self._offsets.append(self._at(second))
        self._suffixes = [
            datetime.fromtimestamp(0, timezone(timedelta(seconds=o))).isoformat()[19:] for o in self._offsets
        ]

    def offset(self, second: int) -> int:
        """Seconds east of UTC."""
        return self._offsets[bisect_right(self._changes, second)]

    def local(self, second: int) -> tuple[int, str]:
        """The day since 1970 on the wall clock, and all of it with its offset: `2026-03-29T03:15:00+02:00`."""
        index = bisect_right(self._changes, second)
        day, clock = divmod(second + self._offsets[index], 86400)
        return day, f"{_day(day)}T{_clock(clock)}{self._suffixes[index]}"

    def _at(self, second: int) -> int:
        offset = datetime.fromtimestamp(second, self._zone).utcoffset() or timedelta()
        return int(offset.total_seconds())

    def _change(self, before: int, after: int) -> int:
        """The first second of the new offset."""
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if self._at(middle) == self._at(before) else (before, middle)
        return after


class Shop:
    """The rows of one shop. The same orders, seed and day give the same rows."""

    def __init__(self, orders: int, seed: int, today: date) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._words = read_words()
        self._orders = orders
        self._today = today
        self._end = datetime(today.year, today.month, today.day, tzinfo=UTC) - timedelta(days=1)
        self._start = self._end - timedelta(days=DAYS - 2)
        self._offsets = {
            place.zone: Offsets(place.zone, self._start - timedelta(days=1), self._end) for place in self._words.places
        }
        self.customers = list(self._customers())
        self.products = list(self._products())

    def orders(self) -> Iterator[Row]:
        """Oldest first, so that ids rise with time."""
        pick, count = self._random.choices, self._orders
        columns = zip(
            self._instants(),
            pick(self.products, k=count),
            pick(list(QUANTITIES), list(QUANTITIES.values()), k=count),
            pick(list(DISCOUNTS), list(DISCOUNTS.values()), k=count),
            pick(list(STATUSES), list(STATUSES.values()), k=count),
            pick((0, 1), (9, 1), k=count),
            pick(range(1, 15), k=count),
            self._notes(self._words.order_notes, count),
            strict=True,
        )
        today = self._today.toordinal() - EPOCH
        for number, ((second, buyer), item, quantity, discount, status, priority, wait, note) in enumerate(columns, 1):
            _, name, email, country, city, zone, *_ = buyer
            _, sku, title, _, price, *_ = item
            cents = (quantity * round(price * 100) * (100 - discount) + 50) // 100
            day, ordered_at = self._offsets[zone].local(second)
            shipped = _day(day + wait) if status in SHIPPED and day + wait <= today else None
            yield (
                number, f"{number:09d}", name, email, country, city, title, sku, quantity, price, discount / 100,
                cents / 100, _currency(country), status if shipped or status not in SHIPPED else "paid", priority,
                ordered_at, shipped, note,
            )  # fmt: skip

    def _customers(self) -> Iterator[Customer]:
        pick = self._random.choice
        places = self._random.choices(self._words.places, [place.weight for place in self._words.places], k=CUSTOMERS)
        notes = self._notes(self._words.customer_notes, CUSTOMERS)
        for number, (place, note) in enumerate(zip(places, notes, strict=True), 1):
            culture = self._words.cultures[place.culture]
            given, family = pick(culture.given), pick(culture.family)
            email = f"{email_name(given)}.{email_name(family)}{number}@{pick(('example.com', 'example.org'))}"
            name = culture.pattern.format(given=given.text, family=family.text)
            signed_up = (self._start - timedelta(days=self._random.randrange(1000))).date().isoformat()
            yield number, name, email, place.country, place.city, place.zone, pick((0, 1)), signed_up, note

    def _products(self) -> Iterator[Product]:
        words: Words = self._words
        skus = sorted(
            self._random.sample(range(1_000, 200_000), len(words.looks) * len(words.makes) * len(words.things))
        )
        for number, (sku, (thing, look, make)) in enumerate(
            zip(skus, product(words.things, words.looks, words.makes), strict=True), 1
        ):
            price = (
                self._random.choice((self._random.randrange(250, 10_000), self._random.randrange(500, 40_000, 50)))
                / 100
            )
            weight = None if self._random.random() < 0.05 else round(self._random.uniform(0.05, 12), 3)
            name = f"{look} {make} {thing}"
            stock = self._random.randrange(0, 500)
            yield (
                number,
                f"{sku:06d}",
                name,
                words.things[thing],
                price,
                weight,
                stock,
                int(self._random.random() < 0.95),
            )

    def _instants(self) -> Iterator[tuple[int, Customer]]:
        """The second since 1970 and the customer of each order; more of them of late, and in the evening.

        One number for both sorts several times faster than a pair.
        """
        rand, start, span = self._random.random, int(self._start.timestamp()), (DAYS - 2) * 86400
        hours = self._random.choices(range(24), HOURS, k=self._orders)
        buyers = self._random.choices(range(CUSTOMERS), k=self._orders)
        standard = [self._offsets[customer[5]].offset(start) for customer in self.customers]
        keys: list[int] = []
        for hour, buyer in zip(hours, buyers, strict=True):
            second = int(rand() ** 0.8 * (DAYS - 2)) * 86400 + int((hour + rand()) * 3600) - standard[buyer]
            keys.append(second % span * CUSTOMERS + buyer)
        keys.sort()
        return ((start + key // CUSTOMERS, self.customers[key % CUSTOMERS]) for key in keys)

    def _notes(self, notes: list[str], count: int) -> list[str | None]:
        """Most have none: NULL, or an empty text."""
        weights = [6 * len(notes), len(notes), *([1] * len(notes))]
        return self._random.choices([None, "", *notes], weights, k=count)


def make_demo(path: Path, *, orders: int = 250_000, seed: int = SEED, today: date | None = None) -> None:
    """Writes the shop to `path`, whole or not at all; its orders lie in the two years before `today`.

    No index: exports read in the order of the ids, and a filter looks at every order in a twentieth of a second.

    Takes a few seconds. Raises OSError or sqlite3.Error when the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(draft, Shop(orders, seed, today or date.today()))
        _flush(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write(path: Path, shop: Shop) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;" + SCHEMA
        )
        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO customers VALUES ({', '.join('?' * 9)})", shop.customers)
        connection.executemany(f"INSERT INTO products VALUES ({', '.join('?' * 8)})", shop.products)
        connection.executemany(f"INSERT INTO orders VALUES ({', '.join('?' * 18)})", shop.orders())
        connection.execute("COMMIT")


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@cache
def _day(number: int) -> str:
    return date.fromordinal(EPOCH + number).isoformat()


@cache
def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _currency(country: str) -> str:
    return "EUR" if country in EURO else CURRENCIES.get(country, "USD")
