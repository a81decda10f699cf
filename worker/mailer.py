"""One mail to one person, as an attempt of a delivery like any other."""

from __future__ import annotations

import asyncio
import time

import aiosmtplib

from webapp.actions.messages import Outgoing
from webapp.domain.callbacks import BODY_KEPT, Answer, ErrorClass
from webapp.mail import MAIL_ERRORS, code_of, deliver, is_about_encryption, reason
from webapp.settings import SmtpSettings

CONNECTIONS = 4
"""To the server at once."""


class Mailer:
    def __init__(self, smtp: SmtpSettings | None) -> None:
        self.smtp = smtp
        self._free = asyncio.Semaphore(CONNECTIONS)

    async def send(self, outgoing: Outgoing, *, time_limit: float) -> Answer:
        """Never raises for what the server does. `time_limit` in seconds begins when there is a connection free."""
        if self.smtp is None or not outgoing.body:
            return Answer(ErrorClass.MAIL_OFF)
        async with self._free:
            started = time.perf_counter()
            try:
                recipient = dict(outgoing.headers)["To"]
                taken = await deliver(self.smtp, recipient, outgoing.body, time_limit=time_limit)
                error, status, text = None, taken.code, taken.text
            except MAIL_ERRORS as failure:
                error, status, text = error_class(failure), code_of(failure), reason(failure)
        body = text.encode(errors="replace")[:BODY_KEPT].decode("utf-8", "ignore").replace("\0", "")
        return Answer(error, status, body=body, seconds=time.perf_counter() - started)


def error_class(failure: Exception) -> ErrorClass:
    cause = failure.__cause__ if isinstance(failure, aiosmtplib.SMTPConnectError) else failure
    if isinstance(failure, aiosmtplib.SMTPTimeoutError) or isinstance(cause, TimeoutError):
        return ErrorClass.TIMEOUT
    if is_about_encryption(failure):
        return ErrorClass.TLS
    if isinstance(failure, aiosmtplib.SMTPServerDisconnected):
        return ErrorClass.DISCONNECTED
    if isinstance(failure, (aiosmtplib.SMTPConnectError, OSError)) and code_of(failure) is None:
        return ErrorClass.REFUSED
    return ErrorClass.MAIL_REFUSED
