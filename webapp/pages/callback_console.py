"""The test console: a sample of an event that may be edited, sent at once, and what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import endpoints, inspectors, messages, trials
from webapp.actions.trials import NoWorker, Trial
from webapp.domain.callbacks import CALLBACK_TYPES, EndpointSettings
from webapp.domain.receiving import Inspector, Verdict
from webapp.domain.sentences import say, sentence_of
from webapp.pages.callback_fields import Mistake
from webapp.pages.callback_wording import shown_body, shown_headers, shown_text, verdict
from webapp.pages.inspector_wording import SENTENCES
from webapp.web.context import admin, resources
from webapp.web.forms import Form, query_form, sentence
from webapp.web.render import fragment
from webapp.web.words import seconds

USUAL = "export.succeeded"
SAMPLE_LENGTH = 64 * 1024
LONGEST_NUMBER = 40
NO_WORKER = say("No worker took the request. Is a callback worker running? Start one with: exportdesk worker callbacks")


class BadSample(ValueError):
    """A sentence that says what is wrong with the sample, and in which line."""


class Judged(msgspec.Struct):
    """An inspector's answer."""

    verdict: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as they may be shown."""

    is_good: bool
    verdict: str
    status: int | None
    seconds: float
    url: str
    request_headers: Sequence[tuple[str, str]]
    request_body: str
    answer_headers: Sequence[tuple[str, str]]
    answer_body: str
    is_cut: bool
    inspectors_word: str

    @property
    def told_time(self) -> str:
        return seconds(self.seconds)


@dataclass(frozen=True, slots=True)
class Console:
    """`trouble` is why nothing was sent; `errors` are those of the form around it."""

    event_type: str
    sample: str
    error: str = ""
    trouble: str = ""
    errors: tuple[Mistake, ...] = ()
    exchange: Exchange | None = None
    inspector: Inspector | None = None


async def console_of(request: Request, form: Form) -> Console:
    """As it was sent, or with a fresh sample when another event was chosen."""
    event_type = form.text("trial_type") if form.text("trial_type") in CALLBACK_TYPES else USUAL
    kept = form.text("trial_data")
    if not kept or "fresh" in form:
        kept = await sample_text(request, event_type)
    return Console(event_type, kept)


async def sample_text(request: Request, event_type: str) -> str:
    message = await messages.sample(resources(request), event_type)
    return json.dumps(dict(message.data), indent=2, ensure_ascii=False)


async def sample(request: Request) -> Response:
    """The sample of another event, for the console's text field."""
    admin(request)
    console = await console_of(request, query_form(request.query_params))
    return fragment("callbacks/_sample.html", console=console)


async def try_out(request: Request, console: Console, settings: EndpointSettings, secrets: Sequence[str]) -> Console:
    """Sends it, if it can be sent."""
    desk = resources(request)
    try:
        data = parse_sample(console.sample)
    except BadSample as error:
        return replace(console, error=sentence_of(error))
    message = await messages.sample(desk, console.event_type)
    try:
        trial = await trials.try_out(desk, settings, secrets, message._replace(data=data))
    except NoWorker:
        return replace(console, trouble=NO_WORKER)
    return replace(console, exchange=_exchange(trial), inspector=await inspectors.find_by_url(desk, settings.url))


def parse_sample(text: str) -> Mapping[str, Any]:
    """Raises BadSample."""
    if len(text) > SAMPLE_LENGTH:
        raise BadSample(say("A sample may have at most {most} characters.", most=SAMPLE_LENGTH))
    try:
        data = json.loads(text, parse_constant=_no_constant, parse_int=_integer, parse_float=_float)
        msgspec.json.encode(data)
    except json.JSONDecodeError as error:
        raise BadSample(
            say(
                "Line {line}, column {column}: {reason}",
                line=error.lineno,
                column=error.colno,
                reason=sentence(error.msg),
            )
        ) from error
    except RecursionError as error:
        raise BadSample(say("The sample is nested too deeply.")) from error
    except UnicodeEncodeError as error:
        raise BadSample(say("The sample has half of a surrogate pair, which no text can hold.")) from error
    if not isinstance(data, dict):
        raise BadSample(say("Line 1: The sample is an export, so it must be an object in braces."))
    return cast(dict[str, Any], data)


def _no_constant(name: str) -> Any:
    raise BadSample(say("{name} is not JSON.", name=name))


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise BadSample(say("A number may have at most {most} digits.", most=LONGEST_NUMBER))
    return int(digits)


def _float(digits: str) -> float:
    """What is too large would be infinite, and sent as null."""
    number = float(digits)
    if math.isinf(number):
        raise BadSample(say("{digits} is too large a number.", digits=digits[:LONGEST_NUMBER]))
    return number


def _exchange(trial: Trial) -> Exchange:
    sent, answer = trial.sent, trial.answer
    return Exchange(
        is_good=answer.error is None,
        verdict=verdict(answer),
        status=answer.status,
        seconds=answer.seconds,
        url=shown_text(sent.url),
        request_headers=shown_headers(sent.headers),
        request_body=shown_body(sent.body.decode(errors="replace")),
        answer_headers=[(shown_text(name), shown_text(value)) for name, value in answer.headers],
        answer_body=shown_body(answer.body),
        is_cut=answer.is_cut,
        inspectors_word=_inspectors_word(answer.body),
    )


def _inspectors_word(body: str) -> str:
    """What an inspector of ours answered, in its own words; empty for anything else."""
    try:
        return SENTENCES[Verdict(msgspec.json.decode(body, type=Judged).verdict)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


async def send(request: Request, form: Form, endpoint_id: str) -> Console:
    """With the settings and secrets of an endpoint as they are. Raises NotFound."""
    desk = resources(request)
    endpoint = await endpoints.get(desk, endpoint_id)
    now = await desk.store.now()
    secrets = [secret.value for secret in endpoint.valid_secrets(now)]
    return await try_out(request, await console_of(request, form), endpoint.settings, secrets)
