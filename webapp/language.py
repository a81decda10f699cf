"""In which language people are told things: the catalogs, and the language that is in force for this task.

Patterns are in English and hold no HTML; `{name}` stands for a value. A value that is HTML already makes all of it
HTML, with everything else escaped.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from markupsafe import escape

from webapp.domain.sentences import Text

LOCALES = Path(__file__).resolve().parent / "locale"
SCRIPTS = "static/"
"""Where those messages are used that scripts say."""


def read_messages(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file)


def translations(messages: Catalog) -> GNUTranslations:
    """Compiled in memory: what is in force is what the file says."""
    compiled = io.BytesIO()
    write_mo(compiled, messages)
    return GNUTranslations(io.BytesIO(compiled.getvalue()))


def said_by_scripts(messages: Catalog) -> Mapping[str, str | Sequence[str]]:
    """The messages that scripts say, by the English one; all forms of those that count."""
    used = (each for each in messages if each.id and any(file.startswith(SCRIPTS) for file, _ in each.locations))
    return {each.id if isinstance(each.id, str) else each.id[0]: each.string or "" for each in used}


@dataclass(frozen=True, eq=False)
class Language:
    """`tag` is its name in HTML and HTTP, `title` what it calls itself."""

    tag: str
    title: str
    locale: Locale
    catalog: NullTranslations = field(default_factory=NullTranslations)
    of_scripts: Mapping[str, str | Sequence[str]] = field(default_factory=dict[str, str | Sequence[str]])

    def tell(self, text: str, values: Mapping[str, Any]) -> str:
        """A pattern, or a text that knows its own, in this language."""
        if not isinstance(text, Text):
            return self._filled(self.catalog.gettext(text) if text else "", values)
        values = {**text.values, **values}
        if text.many is None:
            return self._filled(self.catalog.gettext(text.msgid) if text else "", values)
        return self._filled(self.catalog.ngettext(text.msgid, text.many, text.n), values)

    def count(self, one: str, many: str, n: int, values: Mapping[str, Any]) -> str:
        return self._filled(self.catalog.ngettext(one, many, n), {"n": n, **values})

    def number(self, value: float) -> str:
        """`250,000`: whole, in groups."""
        return _number(round(value), self)

    def _filled(self, pattern: str, values: Mapping[str, Any]) -> str:
        if not values:
            return pattern
        told = {name: self._told(value) for name, value in values.items()}
        if any(hasattr(value, "__html__") for value in told.values()):
            return escape(pattern).format_map(told)
        return pattern.format_map(told)

    def _told(self, value: Any) -> Any:
        if isinstance(value, Text):
            return self.tell(value, {})
        return self.number(value) if isinstance(value, int) and not isinstance(value, bool) else value


@lru_cache(10_000)
def _number(value: int, language: Language) -> str:
    return format_decimal(value, format="#,##0", locale=language.locale)


def load(tag: str, title: str, locale: str) -> Language:
    messages = read_messages(LOCALES / locale / "LC_MESSAGES" / "exportdesk.po")
    return Language(tag, title, Locale.parse(locale), translations(messages), said_by_scripts(messages))


ENGLISH = Language("en", "English", Locale("en", "GB"))
CHINESE = load("zh-CN", "简体中文", "zh_CN")
LANGUAGES: Mapping[str, Language] = {each.tag: each for each in (ENGLISH, CHINESE)}

_current: ContextVar[Language] = ContextVar("language", default=ENGLISH)


def current() -> Language:
    return _current.get()


def speak(language: Language) -> None:
    """From now on, in this task and in those that it begins."""
    _current.set(language)


@contextmanager
def speaking(language: Language) -> Generator[None]:
    """For a while: a mail in the language of its reader, say."""
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def gettext(text: str, /, **values: Any) -> str:
    """A pattern with its values, or a `Text`, in the language in force."""
    return _current.get().tell(text, values)


def ngettext(one: str, many: str, n: int, /, **values: Any) -> str:
    """By the number of things, which is `{n}` in both patterns."""
    return _current.get().count(one, many, n, values)


def translated(value: Any) -> Any:
    """A `Text` in the language in force; anything else as it is."""
    return _current.get().tell(value, {}) if isinstance(value, Text) else value
