"""The mail server: one connection, one mail."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiosmtplib

from webapp.settings import SmtpSettings, StartTLS

MAIL_ERRORS = (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError)
"""ValueError: an address that the server's dialect cannot express."""


class NotEncrypted(aiosmtplib.SMTPException):
    """The server offers no STARTTLS, without which it is told nothing."""


class Taken(NamedTuple):
    """What the server said when it took the mail."""

    code: int
    text: str


async def deliver(smtp: SmtpSettings, recipient: str, mail: bytes, *, time_limit: float) -> Taken:
    """`time_limit` in seconds covers all of it. Raises MAIL_ERRORS."""
    async with asyncio.timeout(time_limit), _session(smtp, time_limit) as client:
        _, text = await client.sendmail(smtp.sender, [recipient], mail)
    return Taken(250, text)


async def greet(smtp: SmtpSettings, *, time_limit: float) -> bool:
    """Connects, says EHLO and signs in; whether the connection is encrypted. Raises MAIL_ERRORS."""
    async with asyncio.timeout(time_limit), _session(smtp, time_limit) as client:
        return _is_encrypted(client)


@asynccontextmanager
async def _session(smtp: SmtpSettings, time_limit: float) -> AsyncGenerator[aiosmtplib.SMTP]:
    """Encrypted, where the server can, before it signs in."""
    start_tls = False if smtp.start_tls is StartTLS.NEVER else None
    async with aiosmtplib.SMTP(
        hostname=smtp.host, port=smtp.port, timeout=time_limit, use_tls=smtp.is_tls, start_tls=start_tls
    ) as client:
        if smtp.start_tls is StartTLS.REQUIRED and not _is_encrypted(client):
            raise NotEncrypted("it offers no STARTTLS, and is told nothing unencrypted")
        if smtp.user:
            await client.login(smtp.user, smtp.password)
        yield client


def _is_encrypted(client: aiosmtplib.SMTP) -> bool:
    return client.get_transport_info("sslcontext") is not None


def is_about_encryption(error: Exception) -> bool:
    """Whether no mail was sent because no encrypted connection came about."""
    return isinstance(error, NotEncrypted) or _tls_error(error) is not None


def _tls_error(error: Exception) -> ssl.SSLError | None:
    cause = error.__cause__ if isinstance(error, aiosmtplib.SMTPConnectError) else error
    return cause if isinstance(cause, ssl.SSLError) else None


def reason(error: Exception) -> str:
    """Why it was not taken, in the server's own words where there are any, in one line."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        error = error.recipients[0]
    if isinstance(tls := _tls_error(error), ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {tls.verify_message}"[:500]
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return " ".join(f"{error.code} {error.message}".split())[:500]
    return " ".join(str(error).split())[:500] or type(error).__name__


def code_of(error: Exception) -> int | None:
    """The server's code, if it gave one."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        error = error.recipients[0]
    return error.code if isinstance(error, aiosmtplib.SMTPResponseException) else None
