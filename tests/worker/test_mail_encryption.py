"""STARTTLS and TLS from the first byte, with a real certificate: neither a password nor a mail goes in the open."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from mail_servers import PASSWORD, USER, mail_server
from patience import PATIENCE
from proxies import make_certificate

from webapp import mail
from webapp.actions.messages import Outgoing
from webapp.domain.callbacks import ErrorClass
from webapp.settings import StartTLS
from worker.mailer import Mailer

MAIL = Outgoing("mailto:usr_x", (("To", "writer@example.org"),), b"Subject: Done\r\n\r\nx\r\n")


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ssl.SSLContext]:
    """What a server needs to encrypt, under a certificate for `host` that this process trusts or not."""

    def certified(host: str = "127.0.0.1", *, is_trusted: bool = True) -> ssl.SSLContext:
        make_certificate(tmp_path, host)
        if is_trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
        return context

    return certified


@pytest.mark.parametrize(("from_first_byte", "in_the_open"), [(False, ["EHLO", "STARTTLS"]), (True, [])])
async def test_password_and_mail_go_encrypted(
    certified: Callable[..., ssl.SSLContext], from_first_byte: bool, in_the_open: list[str]
):
    async with mail_server(has_auth=True, tls=certified(), from_first_byte=from_first_byte) as server:
        answer = await Mailer(server.settings).send(MAIL, time_limit=PATIENCE)
        assert (answer.error, answer.status, server.mails[0]["Subject"]) == (None, 250, "Done")
        assert [verb for verb, is_encrypted in server.heard if not is_encrypted] == in_the_open
        assert {"AUTH", "MAIL", "DATA"} <= {verb for verb, is_encrypted in server.heard if is_encrypted}
        assert await mail.greet(server.settings, time_limit=PATIENCE)


@pytest.mark.parametrize("offers", [True, False])
async def test_encryption_that_is_not_required_is_used_where_it_is_offered(
    certified: Callable[..., ssl.SSLContext], offers: bool
):
    async with mail_server(has_auth=True, tls=certified() if offers else None) as server:
        smtp = replace(server.settings, start_tls=StartTLS.OFFERED)
        answer = await Mailer(smtp).send(MAIL, time_limit=PATIENCE)
        assert (answer.error, len(server.mails)) == (None, 1)
        assert ("AUTH", offers) in server.heard


NOT_TRUSTED, OF_ANOTHER = {"is_trusted": False}, {"host": "127.0.0.2"}


@pytest.mark.parametrize("from_first_byte", [False, True])
@pytest.mark.parametrize(
    ("certificate", "reason"),
    [(NOT_TRUSTED, "self-signed certificate"), (OF_ANOTHER, "certificate is not valid for '127.0.0.1'.")],
)
async def test_a_server_whose_certificate_does_not_verify_is_told_nothing(
    certified: Callable[..., ssl.SSLContext], from_first_byte: bool, certificate: dict[str, object], reason: str
):
    async with mail_server(has_auth=True, tls=certified(**certificate), from_first_byte=from_first_byte) as server:
        answer = await Mailer(server.settings).send(MAIL, time_limit=PATIENCE)
        assert (answer.error, answer.status) == (ErrorClass.TLS, None)
        assert answer.body.startswith("its certificate is not accepted: ")
        assert answer.body.endswith(reason)
        assert server.heard == [("EHLO", False), ("STARTTLS", False)] * (not from_first_byte)


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_server_that_must_encrypt_and_cannot_is_told_nothing(is_tls: bool):
    async with mail_server() as server:
        start_tls = StartTLS.NEVER if is_tls else StartTLS.REQUIRED
        smtp = replace(server.settings, is_tls=is_tls, start_tls=start_tls, user=USER, password=PASSWORD)
        answer = await Mailer(smtp).send(MAIL, time_limit=PATIENCE)
        assert (answer.error, answer.status) == (ErrorClass.TLS, None)
        assert not {"AUTH", "MAIL", "DATA"} & {verb for verb, _ in server.heard}
        if not is_tls:
            assert answer.body == "it offers no STARTTLS, and is told nothing unencrypted"


async def test_a_server_that_offers_to_encrypt_and_then_will_not_is_told_nothing(
    certified: Callable[..., ssl.SSLContext],
):
    async with mail_server(has_auth=True, tls=certified()) as server:
        server.is_out_of_order = True
        answer = await Mailer(server.settings).send(MAIL, time_limit=PATIENCE)
        assert (answer.error, answer.body) == (ErrorClass.MAIL_REFUSED, "454 4.7.0 TLS is out of order")
        assert not {"AUTH", "MAIL", "DATA"} & {verb for verb, _ in server.heard}
