"""Who may do what: roles, scopes of tokens, grants of datasets, and how much one person may have waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from webapp.domain.sentences import say


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


class Scope(StrEnum):
    """What a token is good for, at most: its person's role and grants hold all the same."""

    READ = "read"
    EXPORT = "export"
    CALLBACKS = "callbacks"
    ADMIN = "admin"


class Entrance(StrEnum):
    """How a session began."""

    PASSWORD = "password"  # noqa: S105, no password but a word
    LINK = "link"
    OPENID = "openid"


ALL_SCOPES = frozenset(Scope)
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person behind a request. `session` is None for a bearer token, whose `scopes` may be fewer than all.

    `denied` are datasets that are granted to others and not to this person. `language` and `timezone` are the person's
    own choice, None without one.
    """

    id: str
    name: str
    role: Role
    session: str | None = None
    scopes: frozenset[Scope] = ALL_SCOPES
    denied: frozenset[str] = NOTHING
    language: str | None = None
    timezone: str | None = None

    @property
    def is_admin(self) -> bool:
        """Whether everybody's exports are theirs to see. A token without the scope `admin` acts as a user's."""
        return self.role is Role.ADMIN and Scope.ADMIN in self.scopes


class NotFound(Exception):
    """There is no such thing, or it is somebody else's: the two are told apart to nobody."""


class LastAdmin(Exception):
    """Without this one there would be no admin left who can sign in."""

    def __init__(self, name: str) -> None:
        super().__init__(say("{name} is the only admin. Make somebody else an admin first.", name=name))


class QuotaExceeded(Exception):
    """Too many exports are waiting for this person already."""

    def __init__(self, active: int, limit: int, retry_after: int) -> None:
        super().__init__(
            say(
                "You have {active} exports waiting or running; the limit is {limit}. "
                "Try again in {seconds} seconds, or cancel one.",
                active=active,
                limit=limit,
                seconds=retry_after,
            )
        )
        self.retry_after = retry_after


class TooManyTries(Exception):
    """Too many passwords were wrong, for this name or from this address."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(say("Too many tries. Wait a few minutes, then try again."))
        self.retry_after = retry_after


class Owned(Protocol):
    @property
    def owner(self) -> str: ...
    @property
    def dataset(self) -> str: ...


def may_hear(viewer: Viewer, data: Mapping[str, Any]) -> bool:
    """Of an event about one of this person's own exports, one shared with them, or for an admin of any: it is not told
    of a dataset that is withheld, nor what failed to whom it is only shared with. `data` is the export as the event
    tells it."""
    if data.get("dataset") in viewer.denied:
        return False
    return viewer.is_admin or data.get("owner") == viewer.id or not data.get("error")


def may_poll(viewer: Viewer, export: Owned) -> bool:
    """Whether a token is good for reading, and this to be seen."""
    return Scope.READ in viewer.scopes and may_see(viewer, export)


def may_see(viewer: Viewer, export: Owned) -> bool:
    """Its owner, while the dataset is not withheld, and admins."""
    return viewer.is_admin or (export.owner == viewer.id and export.dataset not in viewer.denied)
