"""Doing one thing to several exports of the list: the selected ones, or all that match its filters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports, matching
from webapp.actions.changes import Contended
from webapp.actions.exports import AlreadyActive
from webapp.actions.matching import Deed, Tally
from webapp.domain.access import NotFound, QuotaExceeded, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Export, IllegalTransition
from webapp.domain.ids import ALPHABET, LENGTH
from webapp.domain.limits import MAX_PAGE_SIZE
from webapp.domain.sentences import say
from webapp.language import gettext as _
from webapp.pages.context import ListQuery, parse_list_query
from webapp.pages.wording import BADGES
from webapp.resources import Resources
from webapp.web import cursors
from webapp.web.context import resources, viewer
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import Form, read_form
from webapp.web.render import page
from webapp.web.zones import own_zone

SECONDS = 20.0
"""So long all that match are worked on in one go; the rest is left for the next."""
LAST_ID = "exp_" + ALPHABET[-1] * LENGTH

ACTS: Mapping[Deed, Callable[[Resources, Viewer, str], Awaitable[object]]] = {
    Deed.CANCEL: exports.cancel,
    Deed.RETRY: exports.retry,
    Deed.DELETE: exports.delete,
}
DONE: Mapping[Deed, str] = {Deed.CANCEL: "cancelled", Deed.RETRY: "retried", Deed.DELETE: "deleted"}
"""The codes of the messages."""
Outcomes = Counter[tuple[str, str]]
"""By the message's code and the status that forbade it."""


async def selection(request: Request) -> Response:
    """Does what can be done, leaves the rest as it was, and says both. Deleting asks first."""
    who, form = viewer(request), await read_form(request)
    query = parse_list_query(QueryParams(form.text("back")), who, own_zone(request))
    if "matching" in form:
        return await _matching(request, who, form, query)
    ids = list(dict.fromkeys(form.all("ids")))[:MAX_PAGE_SIZE]
    deed = _deed(form, "action")
    if not ids:
        return redirect(request, query.url(), flash("nothing-selected"))
    if deed is Deed.DELETE and "confirmed" not in form:
        return page(request, "exports/confirm_delete.html", ids=ids, back=query.url(), back_query=form.text("back"))
    outcomes = Outcomes()
    for export_id in ids:
        outcomes[await _outcome(resources(request), who, deed, export_id)] += 1
    return redirect(request, query.url(), *_told(deed, outcomes))


def _deed(form: Form, field: str) -> Deed:
    try:
        return Deed(form.text(field))
    except ValueError:
        raise Invalid([FieldError(field, say("Choose one of: {choices}.", choices=", ".join(Deed)))]) from None


def _told(deed: Deed, outcomes: Outcomes) -> list[Flash]:
    done = sorted(outcomes, key=lambda outcome: outcome[0] != DONE[deed])
    return [flash(code, n=outcomes[code, status], status=status) for code, status in done]


async def _matching(request: Request, who: Viewer, form: Form, query: ListQuery) -> Response:
    """Counts and asks, then does it to those that were there when it asked."""
    desk, deed = resources(request), _deed(form, "matching")
    asked = cursors.decode(form.text("before"), "exp") if "confirmed" in form else None
    if asked is None:
        before = (await desk.store.now(), LAST_ID)
        tally = await matching.count(desk, query.filter(desk, who), deed, before=before)
        return page(
            request,
            "exports/confirm_matching.html",
            deed=deed.value,
            query=query,
            before=cursors.encode(*before),
            tally=tally,
            reasons=_reasons(tally),
        )
    outcomes = await _do_matching(desk, who, deed, query, asked)
    return redirect(request, query.url(cursor=None), *(_told(deed, outcomes) or [flash(DONE[deed], n=0)]))


def _reasons(tally: Tally) -> Sequence[tuple[int, str]]:
    """Why some are left as they are, and how many for each reason."""
    by_status = [
        (n, _("the status is {status}", status=_(BADGES[status].label).lower()))
        for status, n in tally.by_status.items()
    ]
    others = [
        (tally.repeated, _("the same order is waiting or running, or is tried again already")),
        (tally.beyond, _("no more may be waiting or running at once")),
    ]
    return [(n, reason) for n, reason in (*by_status, *others) if n]


async def _do_matching(desk: Resources, who: Viewer, deed: Deed, query: ListQuery, asked: matching.Key) -> Outcomes:
    """Each by itself, until the time is up."""
    outcomes, until = Outcomes(), time.monotonic() + SECONDS
    async with aclosing(matching.walk(desk, query.filter(desk, who), deed, before=asked)) as found:
        async for export in found:
            if deed is Deed.DELETE and _ended_after(export, asked[0]):
                outcomes["left-ended", ""] += 1
            else:
                outcomes[await _outcome(desk, who, deed, export.id)] += 1
            if time.monotonic() >= until:
                rest = await matching.count(desk, query.filter(desk, who), deed, before=(export.created_at, export.id))
                if rest.can:
                    outcomes["left-for-later", ""] = rest.can
                break
    return outcomes


def _ended_after(export: Export, moment: datetime) -> bool:
    ends = (export.completed_at, export.cancelled_at, export.expired_at)
    return any(end > moment for end in ends if end is not None)


async def _outcome(desk: Resources, who: Viewer, deed: Deed, export_id: str) -> tuple[str, str]:
    """The message's code, and the status that forbade it."""
    try:
        await ACTS[deed](desk, who, export_id)
    except IllegalTransition as error:
        return "left-alone", BADGES[error.current].label
    except NotFound:
        return "left-missing", ""
    except QuotaExceeded:
        return "left-quota", ""
    except AlreadyActive:
        return "left-active", ""
    except Contended:
        return "left-busy", ""
    return DONE[deed], ""
