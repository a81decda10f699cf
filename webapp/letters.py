"""The mails that the desk writes, in the language of who reads them: plain text and simple HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from webapp.domain.errors import ErrorCode, ExportError, recalled
from webapp.folders import template_folder
from webapp.language import Language, gettext, ngettext, speaking
from webapp.settings import SmtpSettings

_environment = Environment(
    loader=FileSystemLoader(template_folder()),
    autoescape=select_autoescape(),
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, slots=True)
class Letter:
    """What a mail says; `button` is what its one link is called."""

    subject: str
    lines: tuple[str, ...]
    url: str
    button: str
    footer: str


def confirmation(language: Language, *, name: str, url: str) -> Letter:
    """Asks whether an address is that of the person of this name."""
    with speaking(language):
        return Letter(
            subject=gettext("Confirm your address at Exportdesk"),
            lines=(
                gettext("Somebody who is signed in as {name} wants to be mailed here when exports end.", name=name),
                gettext("If that was you, confirm it within a day:"),
            ),
            url=url,
            button=gettext("Confirm this address"),
            footer=gettext("If it was not you, do nothing: this address is not written to again."),
        )


def ended(language: Language, export: Mapping[str, Any], what: str, *, base_url: str) -> Letter:
    """Tells how an export ended, which people call `what`; `export` as callbacks carry it. Never the file, and no link
    to it: to its page."""
    what = " ".join(what.split())
    with speaking(language):
        return Letter(
            subject=_subject(export["status"], what),
            lines=tuple(_lines(export)),
            url=f"{base_url}/exports/{export['id']}",
            button=gettext("Open the export"),
            footer=gettext("You asked for a mail about this export, or about all of yours. Change that at {url}",
                           url=f"{base_url}/account"),
        )  # fmt: skip


def shared(language: Language, export: Mapping[str, Any], what: str, *, by: str, note: str, base_url: str) -> Letter:
    """Tells who was given a finished file to look at, and by whom; `export` as callbacks carry it."""
    what = " ".join(what.split())
    with speaking(language):
        said = [gettext("{name} writes: {note}", name=by, note=note)] if by and note else [note] if note else []
        return Letter(
            subject=gettext("{name} shared {export} with you", name=by, export=what)
            if by
            else gettext("{export} was shared with you", export=what),
            lines=(*said, *_lines(export)),
            url=f"{base_url}/exports/{export['id']}",
            button=gettext("Open the export"),
            footer=gettext("You asked to be mailed about all your orders and what is shared with you. "
                           "Change that at {url}", url=f"{base_url}/account"),
        )  # fmt: skip


def _subject(status: str, what: str) -> str:
    match status:
        case "SUCCESS":
            return gettext("{export} is ready", export=what)
        case "EXPIRED":
            return gettext("{export} took too long", export=what)
        case _:
            return gettext("{export} failed", export=what)


def _lines(export: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if (file := export["file"]) is not None:
        lines.append(ngettext("The file has {n} row.", "The file has {n} rows.", file["rows"]))
        lines.append(gettext("It can be downloaded from the page of the export, by whoever may see it."))
    if (error := export["error"]) is not None:
        lines.append(gettext(recalled(ExportError(ErrorCode(error["code"]), error["message"], error["retriable"]))))
    return lines


def message(
    letter: Letter, smtp: SmtpSettings, recipient: str, *, id: str, at: datetime, base_url: str
) -> EmailMessage:
    """`id` names it once and for all: the same mail sent twice can be told from two mails."""
    mail = EmailMessage()
    mail["From"] = smtp.sender
    mail["To"] = recipient
    mail["Subject"] = letter.subject
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = f"<{id}@{urlsplit(base_url).hostname}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(_environment.get_template("mail/letter.txt").render(letter=letter))
    mail.add_alternative(_environment.get_template("mail/letter.html").render(letter=letter), subtype="html")
    return mail
