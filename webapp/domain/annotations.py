"""What a person calls a thing of theirs, and notes about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.domain.errors import FieldError, Invalid
from webapp.domain.limits import NAME_LENGTH, NOTE_LENGTH
from webapp.domain.sentences import say


@dataclass(frozen=True, slots=True)
class Annotation:
    """Both may be empty."""

    name: str = ""
    note: str = ""


def annotation(sent: Mapping[str, Any], before: Annotation) -> Annotation:
    """The annotation with what was sent put in its place. Raises Invalid naming each mistake."""
    errors: list[FieldError] = []
    name, note = sent.get("name", before.name), sent.get("note", before.note)
    if problem := name_problem(name):
        errors.append(FieldError("name", problem))
    if problem := note_problem(note):
        errors.append(FieldError("note", problem))
    if errors:
        raise Invalid(errors)
    return Annotation(tidy_name(name), tidy_note(note))


def tidy_name(text: str) -> str:
    return " ".join(text.split())


def tidy_note(text: str) -> str:
    """Browsers send a form's line ends as two characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def name_problem(text: object) -> str | None:
    """What keeps a text from being a name, which is one line."""
    if not isinstance(text, str):
        return say("Must be a text.")
    if len(tidy_name(text)) > NAME_LENGTH:
        return say("Must have at most {n} characters.", n=NAME_LENGTH)
    return None if tidy_name(text).isprintable() else say("Must not contain control characters.")


def note_problem(text: object) -> str | None:
    if not isinstance(text, str):
        return say("Must be a text.")
    if len(tidy_note(text)) > NOTE_LENGTH:
        return say("Must have at most {n} characters.", n=NOTE_LENGTH)
    is_clean = all(character.isprintable() or character in "\n\t" for character in tidy_note(text))
    return None if is_clean else say("Must not contain control characters.")
