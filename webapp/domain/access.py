"""Who may do what: roles, and how much one person may have running and waiting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person behind a request. `session` is None for a bearer token."""

    id: str
    name: str
    role: Role
    session: str | None = None

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN


class NotFound(Exception):
    """There is no such thing, or it is somebody else's: the two are told apart to nobody."""


class QuotaExceeded(Exception):
    """Too many exports are waiting for this person already."""

    def __init__(self, active: int, limit: int, retry_after: int) -> None:
        super().__init__(
            f"You have {active} exports waiting or running; the limit is {limit}. "
            f"Try again in {retry_after} seconds, or cancel one."
        )
        self.retry_after = retry_after


class Owned(Protocol):
    @property
    def owner(self) -> str: ...


def may_see(viewer: Viewer, export: Owned) -> bool:
    return viewer.is_admin or export.owner == viewer.id
