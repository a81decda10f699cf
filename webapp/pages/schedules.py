"""When a saved order is ordered by itself: its form, with the next dates, and pausing it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import saved_orders, schedules
from webapp.actions.due_times import CRON_LENGTH, checked_cron, following
from webapp.domain.access import NotFound
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.schedules import Schedule
from webapp.pages.order_options import time_zones
from webapp.pages.schedule_wording import WEEKDAYS, told_stop
from webapp.web.context import resources, saved_order_id, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, read_form
from webapp.web.render import fragment, is_fragment, page

LIST = "/saved-orders"
CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
WHOLE = re.compile(r"(\d{1,2}) (\d{1,2}) (\*|\d{1,2}|L) \* (\*|[0-6])")
MONTH_DAYS = (*map(str, range(1, 29)), "L")


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What the form shows. `kind` is daily, weekly, monthly or cron."""

    kind: str = "daily"
    clock: str = "08:00"
    weekday: str = "1"
    month_day: str = "1"
    cron: str = "0 8 * * *"
    zone: str = "UTC"


async def show(request: Request) -> Response:
    saved = await saved_orders.get(resources(request), viewer(request), saved_order_id(request))
    schedule = await _schedule(request)
    rhythm = rhythm_of(schedule.cron, schedule.zone) if schedule else Rhythm(zone=saved.zone)
    return await _form(request, rhythm, schedule)


async def save(request: Request) -> Response:
    """Saves it; or with `show` says when that would be, alone for htmx and within the whole form without scripts."""
    who, form = viewer(request), await read_form(request)
    rhythm = sent_rhythm(form)
    if "show" in form or is_fragment(request):
        return await _form(request, rhythm, await _schedule(request))
    try:
        await schedules.put(resources(request), who, saved_order_id(request), cron_of(rhythm), rhythm.zone)
    except Invalid as invalid:
        return await _form(request, rhythm, await _schedule(request), errors=invalid.errors)
    return redirect(request, LIST, flash("schedule-saved"))


async def pause(request: Request) -> Response:
    await schedules.pause(resources(request), viewer(request), saved_order_id(request))
    return redirect(request, LIST, flash("schedule-paused"))


async def resume(request: Request) -> Response:
    await schedules.resume(resources(request), viewer(request), saved_order_id(request))
    return redirect(request, LIST, flash("schedule-resumed"))


async def remove(request: Request) -> Response:
    await schedules.remove(resources(request), viewer(request), saved_order_id(request))
    return redirect(request, LIST, flash("schedule-removed"))


async def _schedule(request: Request) -> Schedule | None:
    try:
        return await schedules.get(resources(request), viewer(request), saved_order_id(request))
    except NotFound:
        return None


async def _form(
    request: Request, rhythm: Rhythm, schedule: Schedule | None, *, errors: Sequence[FieldError] = ()
) -> Response:
    saved = await saved_orders.get(resources(request), viewer(request), saved_order_id(request))
    now = await resources(request).store.now()
    dates: Sequence[datetime] = ()
    try:
        cron, zone = checked_cron(cron_of(rhythm), rhythm.zone, now)
        dates = [moment.astimezone(ZoneInfo(zone)) for moment in following(cron, zone, now, schedules.SHOWN)]
    except Invalid as invalid:
        errors = errors or invalid.errors
    status, wrong = 422 if errors else 200, messages_by_field(errors)
    if is_fragment(request):
        return fragment("saved_orders/_dates.html", dates=dates, wrong=wrong, rhythm=rhythm)
    return page(
        request,
        "saved_orders/schedule.html",
        status,
        saved=saved,
        schedule=schedule,
        stop=told_stop(schedule),
        rhythm=rhythm,
        dates=dates,
        wrong=wrong,
        weekdays=WEEKDAYS,
        month_days=MONTH_DAYS,
        zones=time_zones(),
        cron_length=CRON_LENGTH,
    )


def sent_rhythm(form: Form) -> Rhythm:
    usual = Rhythm()
    return Rhythm(
        kind=form.text("kind", usual.kind),
        clock=form.text("clock", usual.clock),
        weekday=form.text("weekday", usual.weekday),
        month_day=form.text("month_day", usual.month_day),
        cron=form.text("cron", usual.cron)[: CRON_LENGTH * 2],
        zone=form.text("zone", usual.zone),
    )


def cron_of(rhythm: Rhythm) -> str:
    """The cron line; one that means nothing, for `checked_cron` to refuse, when the form's values mean nothing."""
    clock = CLOCK.fullmatch(rhythm.clock.strip())
    if rhythm.kind == "cron" or clock is None:
        return rhythm.cron if rhythm.kind == "cron" else ""
    at = f"{int(clock[2])} {int(clock[1])}"
    match rhythm.kind:
        case "weekly":
            return f"{at} * * {rhythm.weekday}"
        case "monthly":
            return f"{at} {rhythm.month_day} * *"
        case _:
            return f"{at} * * *"


def rhythm_of(cron: str, zone: str) -> Rhythm:
    """The form's own words for a line, where it has any."""
    found = WHOLE.fullmatch(cron)
    if found is None or (found[3] != "*" and found[4] != "*"):
        return Rhythm(kind="cron", cron=cron, zone=zone)
    clock = f"{int(found[2]):02}:{int(found[1]):02}"
    if found[4] != "*":
        return Rhythm("weekly", clock, weekday=found[4], cron=cron, zone=zone)
    if found[3] != "*":
        return Rhythm("monthly", clock, month_day=found[3], cron=cron, zone=zone)
    return Rhythm("daily", clock, cron=cron, zone=zone)
