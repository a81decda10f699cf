"""The columns of an order form: those the dataset has, those that were chosen, and their order. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from webapp.domain.limits import COLUMNS_MOST
from webapp.web.forms import Form

KNOWN = "columns.known"
"""The field that has the dataset's columns while a form is filled in, as JSON: they are not looked up twice."""


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One line of the list. `place` is that among the dataset's own columns, None for one that is gone."""

    name: str
    is_chosen: bool
    place: int | None


@dataclass(frozen=True, slots=True)
class Columns:
    """`known` are the dataset's own, none while nobody has looked; `chosen` is None when the file has all of them."""

    known: tuple[str, ...] = ()
    chosen: tuple[str, ...] | None = None

    @property
    def known_json(self) -> str:
        return json.dumps(self.known, ensure_ascii=False)

    @property
    def rows(self) -> list[ColumnRow]:
        """The chosen ones in their order, then the others in the dataset's; none while nobody has looked or chosen."""
        chosen = self.known if self.chosen is None else self.chosen
        ticked = set(chosen)
        others = [name for name in self.known if name not in ticked]
        places = {name: place for place, name in enumerate(self.known)}
        own = places if self.known else {name: place for place, name in enumerate(chosen)}
        return [
            *(ColumnRow(name, True, own.get(name)) for name in chosen),
            *(ColumnRow(name, False, own.get(name)) for name in others),
        ]

    def looked_up(self, names: Sequence[str]) -> Columns:
        return replace(self, known=tuple(names))

    def pressed(self, button: str) -> Columns:
        """After a button of the form: `all`, `none`, `up:NAME` or `down:NAME`; any other changes nothing."""
        word, _, name = button.partition(":")
        chosen = list(self.known if self.chosen is None else self.chosen)
        if word == "all" and self.known:
            return replace(self, chosen=None)
        if word == "none":
            return replace(self, chosen=())
        if word in {"up", "down"} and name in chosen:
            at = chosen.index(name)
            other = at - 1 if word == "up" else at + 1
            if 0 <= other < len(chosen):
                chosen[at], chosen[other] = chosen[other], chosen[at]
            return replace(self, chosen=tuple(chosen))
        return self


ALL = Columns()


def sent_columns(form: Form) -> Columns:
    """What a form or a link has of them. All of them in the dataset's order is no choice."""
    known = _known(form.text(KNOWN))
    if KNOWN not in form and "o.columns" not in form:
        return ALL
    chosen = tuple(form.all("o.columns"))
    return Columns(known, None if known and chosen == known else chosen)


def ordered_columns(options: Mapping[str, Any]) -> Columns:
    """As an earlier order had them."""
    return Columns(chosen=tuple(options["columns"])) if "columns" in options else ALL


def _known(text: str) -> tuple[str, ...]:
    try:
        return tuple(msgspec.json.decode(text, type=list[str])[:COLUMNS_MOST])
    except msgspec.DecodeError:
        return ()
