"""How API tokens are told to people, and what the form for a new one sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from webapp.domain.access import Scope
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.store.people import ApiToken
from webapp.web.forms import Form

SCOPES: Mapping[Scope, tuple[str, str]] = {
    Scope.READ: (say("Read"), say("datasets, exports, events, the account; download files")),
    Scope.EXPORT: (say("Export"), say("order, preview, cancel, retry, delete")),
    Scope.CALLBACKS: (say("Callbacks"), say("endpoints and deliveries")),
    Scope.ADMIN: (
        say("Admin"),
        say("change the account, make and revoke tokens, and whatever else its person may administer"),
    ),
}
LIFETIMES: Mapping[str, str] = {
    "7": say("7 days"),
    "30": say("30 days"),
    "90": say("90 days"),
    "365": say("1 year"),
    "": say("Until revoked"),
}


@dataclass(frozen=True, slots=True)
class TokenForm:
    """The form as it is shown; what is wrong with it by field."""

    name: str = ""
    scopes: Set[Scope] = frozenset({Scope.READ, Scope.EXPORT})
    lifetime: str = "90"
    errors: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One token, and whose it is where that is not plain."""

    token: ApiToken
    scopes: Sequence[str]
    state: str
    owner: str = ""

    @property
    def is_in_force(self) -> bool:
        return self.state == ""


def token_row(token: ApiToken, now: datetime, owner: str = "") -> TokenRow:
    state = "" if token.is_in_force(now) else say("Revoked") if token.revoked_at else say("Ran out")
    return TokenRow(token, [SCOPES[scope][0] for scope in Scope if scope in token.scopes], state, owner)


def sent_token(form: Form) -> TokenForm:
    """Scopes that there are not are left out: browsers send none."""
    scopes = frozenset(scope for scope in Scope if scope.value in form.all("scopes"))
    return TokenForm(form.text("name")[:200], scopes, form.text("lifetime"))


def lifetime_of(form: TokenForm) -> timedelta | None:
    """Raises Invalid."""
    if form.lifetime not in LIFETIMES:
        raise Invalid([FieldError("expires", say("Choose how long it lasts."))])
    return timedelta(days=int(form.lifetime)) if form.lifetime else None
