"""The words of the demo shop: names by culture, places, products and notes."""

from __future__ import annotations

import tomllib
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNDECOMPOSED = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i", "æ": "ae", "Æ": "Ae"}
)
"""Latin letters that Unicode does not take apart into a base and a mark."""


@dataclass(frozen=True, slots=True)
class Name:
    """`latin` is how it is written in an e-mail address."""

    text: str
    latin: str


@dataclass(frozen=True, slots=True)
class Culture:
    """`pattern` puts `given` and `family` in their order."""

    pattern: str
    given: list[Name]
    family: list[Name]


@dataclass(frozen=True, slots=True)
class Place:
    city: str
    country: str
    zone: str
    culture: str
    weight: int


@dataclass(frozen=True, slots=True)
class Words:
    """`things` has the category of each."""

    cultures: dict[str, Culture]
    places: list[Place]
    looks: list[str]
    makes: list[str]
    things: dict[str, str]
    order_notes: list[str]
    customer_notes: list[str]


def read_words() -> Words:
    data: dict[str, Any] = tomllib.loads(Path(__file__).with_name("demo_words.toml").read_text(encoding="utf-8"))
    return Words(
        {name: _culture(table) for name, table in data["cultures"].items()},
        [Place(**table) for table in data["places"]],
        data["products"]["looks"],
        data["products"]["makes"],
        data["products"]["things"],
        data["notes"]["order"],
        data["notes"]["customer"],
    )


def email_name(name: Name) -> str:
    """Plain small ASCII letters."""
    letters = unicodedata.normalize("NFKD", name.latin.translate(UNDECOMPOSED))
    return "".join(letter for letter in letters.lower() if letter.isascii() and letter.isalpha())


def _culture(table: dict[str, Any]) -> Culture:
    return Culture(table["pattern"], *([_name(text) for text in table[part]] for part in ("given", "family")))


def _name(text: str) -> Name:
    shown, _, latin = text.partition("|")
    return Name(shown, latin or shown)
