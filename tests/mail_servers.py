"""A mail server on loopback: it keeps what it takes, and refuses what it is told to."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from webapp.settings import SmtpSettings, StartTLS

USER, PASSWORD = "desk", "s3cret/word"


@dataclass
class MailServer:
    """`refusals` are answers to DATA, one for each of the next mails. With `tls` it offers STARTTLS, or encrypts from
    its first byte; `heard` are the verbs and whether they came encrypted."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list[EmailMessage])
    envelopes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    refusals: list[str] = field(default_factory=list[str])
    heard: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    has_auth: bool = False
    tls: ssl.SSLContext | None = None
    from_first_byte: bool = False
    is_out_of_order: bool = False
    """It offers STARTTLS and cannot do it."""

    @property
    def settings(self) -> SmtpSettings:
        who = (USER, PASSWORD) if self.has_auth else ("", "")
        offers = self.tls is not None and not self.from_first_byte
        start_tls = StartTLS.REQUIRED if offers else StartTLS.NEVER
        return SmtpSettings("127.0.0.1", self.port, "desk@example.org", self.from_first_byte, start_tls, *who)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender, recipient, is_encrypted = "", "", self.from_first_byte
        try:
            await _say(writer, "220 mail.example.org")
            while line := (await reader.readline()).decode().strip():
                verb = line.upper().partition(" ")[0]
                self.heard.append((verb, is_encrypted))
                if verb == "EHLO":
                    can = ["AUTH PLAIN"] * self.has_auth
                    can += ["STARTTLS"] * (self.tls is not None and not is_encrypted)
                    await _say(writer, "250-mail.example.org", *[f"250-{what}" for what in can], "250 8BITMIME")
                elif verb == "STARTTLS" and self.is_out_of_order:
                    await _say(writer, "454 4.7.0 TLS is out of order")
                elif verb == "STARTTLS" and self.tls is not None:
                    await _say(writer, "220 go on")
                    await writer.start_tls(self.tls)
                    is_encrypted = True
                elif verb == "AUTH":
                    given = base64.b64decode(line.split()[2]).decode().split("\0")[1:]
                    await _say(writer, "235 in" if given == [USER, PASSWORD] else "535 5.7.8 who are you?")
                elif verb == "MAIL":
                    sender = line.partition("<")[2].partition(">")[0]
                    await _say(writer, "250 ok")
                elif verb == "RCPT":
                    recipient = line.partition("<")[2].partition(">")[0]
                    await _say(writer, "250 ok")
                elif verb == "DATA":
                    await self._take(reader, writer, sender, recipient)
                elif verb == "QUIT":
                    await _say(writer, "221 bye")
                    return
                else:
                    await _say(writer, "250 ok")
        except (ConnectionError, ssl.SSLError):
            return
        finally:
            writer.close()

    async def _take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, recipient: str
    ) -> None:
        await _say(writer, "354 go on")
        text = await reader.readuntil(b"\r\n.\r\n")
        if self.refusals:
            await _say(writer, self.refusals.pop(0))
            return
        self.envelopes.append((sender, recipient))
        self.mails.append(message_from_bytes(text.removesuffix(b".\r\n"), policy=policy.default))
        await _say(writer, f"250 taken as {len(self.mails)}")


async def _say(writer: asyncio.StreamWriter, *lines: str) -> None:
    writer.write("".join(f"{line}\r\n" for line in lines).encode())
    await writer.drain()


@asynccontextmanager
async def mail_server(
    *, has_auth: bool = False, tls: ssl.SSLContext | None = None, from_first_byte: bool = False
) -> AsyncIterator[MailServer]:
    made = MailServer(has_auth=has_auth, tls=tls, from_first_byte=from_first_byte)
    server = await asyncio.start_server(made.talk, "127.0.0.1", 0, ssl=tls if from_first_byte else None)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
