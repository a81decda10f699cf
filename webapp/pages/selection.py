"""Doing one thing to several exports of the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports
from webapp.actions.changes import Contended
from webapp.actions.exports import AlreadyActive
from webapp.domain.access import NotFound, QuotaExceeded, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import IllegalTransition
from webapp.domain.limits import MAX_PAGE_SIZE
from webapp.pages.context import parse_list_query
from webapp.pages.wording import BADGES
from webapp.resources import Resources
from webapp.web.context import resources, viewer
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import Form, read_form
from webapp.web.render import page


@dataclass(frozen=True, slots=True)
class Deed:
    """What can be done to a selection, and the code of the message that says it was."""

    act: Callable[[Resources, Viewer, str], Awaitable[Any]]
    done: str


DEEDS: Mapping[str, Deed] = {
    "cancel": Deed(exports.cancel, "cancelled"),
    "retry": Deed(exports.retry, "retried"),
    "delete": Deed(exports.delete, "deleted"),
}


async def selection(request: Request) -> Response:
    """Does what can be done, leaves the rest as it was, and says both. Deleting asks first."""
    who, form = viewer(request), await read_form(request)
    ids = list(dict.fromkeys(form.all("ids")))[:MAX_PAGE_SIZE]
    back = parse_list_query(QueryParams(form.text("back")), who).url()
    deed = DEEDS.get(form.text("action"))
    if deed is None:
        raise Invalid([FieldError("action", f"Choose one of: {', '.join(DEEDS)}.")])
    if not ids:
        return redirect(request, back, flash("nothing-selected"))
    if deed.done == "deleted" and "confirmed" not in form:
        return _ask(request, form, ids, back)
    return redirect(request, back, *await _do(resources(request), who, deed, ids))


def _ask(request: Request, form: Form, ids: Sequence[str], back: str) -> Response:
    return page(request, "exports/confirm_delete.html", ids=ids, back=back, back_query=form.text("back"))


async def _do(desk: Resources, who: Viewer, deed: Deed, ids: Sequence[str]) -> list[Flash]:
    outcomes: Counter[tuple[str, str]] = Counter()
    for export_id in ids:
        outcomes[await _outcome(desk, who, deed, export_id)] += 1
    done = sorted(outcomes, key=lambda outcome: outcome[0] != deed.done)
    return [flash(code, n=outcomes[code, status], status=status) for code, status in done]


async def _outcome(desk: Resources, who: Viewer, deed: Deed, export_id: str) -> tuple[str, str]:
    """The message's code, and the status that forbade it."""
    try:
        await deed.act(desk, who, export_id)
    except IllegalTransition as error:
        return "left-alone", BADGES[error.current].label.lower()
    except NotFound:
        return "left-missing", ""
    except QuotaExceeded:
        return "left-quota", ""
    except AlreadyActive:
        return "left-active", ""
    except Contended:
        return "left-busy", ""
    return deed.done, ""
