"""What is sent: compact JSON, signed over its raw bytes so that stock libraries verify it, and encrypted data."""

from __future__ import annotations

import base64
import json
import secrets
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks
import svix.webhooks
from joserfc import jwe
from joserfc.jwk import OctKey

from webapp.actions import messages
from webapp.domain.callbacks import EndpointSettings, Message
from webapp.domain.events import EVENT_TYPES
from webapp.domain.signing import is_signed, new_secret, signature
from webapp.resources import Resources

NOW = datetime.now(UTC)
MESSAGE = Message("evt_1", "export.succeeded", NOW, {"id": "exp_1", "name": 'Ünïcode 東京 "x"', "rows": 3})


def composed(*given: str, message: Message = MESSAGE, **choices: object) -> messages.Outgoing:
    settings = EndpointSettings("https://receiver.example/hook", **choices)  # type: ignore[arg-type]
    return messages.outgoing(settings, given or [new_secret()], message, at=datetime.now(UTC))


def test_the_interoperability_vector_of_standard_webhooks() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    got = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert got == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_body_is_compact_json_of_type_timestamp_and_data() -> None:
    sent = composed()
    assert json.loads(sent.body) == {
        "type": "export.succeeded",
        "timestamp": NOW.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": dict(MESSAGE.data),
    }
    assert b": " not in sent.body
    assert "東京".encode() in sent.body


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, svix.webhooks.Webhook])
def test_stock_libraries_verify_it_with_each_valid_secret(library: type) -> None:
    newest, older = new_secret(), new_secret()
    sent = composed(newest, older)
    for secret in (newest, older):
        library(secret).verify(sent.body, dict(sent.headers))
    with pytest.raises(Exception, match="No matching signature"):
        library(new_secret()).verify(sent.body, dict(sent.headers))
    with pytest.raises(Exception, match="No matching signature"):
        library(newest).verify(sent.body.replace(b"3", b"4"), dict(sent.headers))


def test_the_plain_signature_is_of_the_newest_secret() -> None:
    newest, older = new_secret(), new_secret()
    headers = dict(composed(newest, older).headers)
    assert headers["X-Signature"] == dict(composed(newest).headers)["X-Signature"]
    assert headers["X-Signature"].startswith("sha256=")


def test_our_own_check_agrees() -> None:
    secret = new_secret()
    sent = composed(secret)
    headers = dict(sent.headers)
    given = headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"]
    assert is_signed(secret, *given, sent.body)
    assert not is_signed(secret, *given, sent.body + b" ")


def test_custom_headers_come_first_and_replace_none_of_ours() -> None:
    custom = (("X-Team", "blue"), ("WEBHOOK-ID", "forged"), ("content-type", "text/plain"), ("x-signature", "forged"))
    sent = composed(headers=custom)
    assert sent.headers[0] == ("X-Team", "blue")
    names = [name.lower() for name, _ in sent.headers]
    assert len(names) == len(set(names))
    headers = {name.lower(): value for name, value in sent.headers}
    assert (headers["webhook-id"], headers["content-type"]) == ("evt_1", "application/json")
    assert headers["x-signature"].startswith("sha256=")
    assert headers["user-agent"].startswith("Exportdesk")


def test_values_of_custom_headers_are_left_out_of_the_log() -> None:
    custom = (("Authorization", "Bearer hidden"),)
    settings = EndpointSettings("https://receiver.example/hook", headers=custom)
    sent = messages.outgoing(settings, [new_secret()], MESSAGE, at=datetime.now(UTC))
    shown = messages.shown_headers(settings, sent)
    assert shown[0] == ("Authorization", "(kept sealed)")
    assert shown[1:] == sent.headers[1:]


def test_encrypted_data_opens_with_the_shared_key_and_the_signature_is_over_the_ciphertext() -> None:
    key, secret = secrets.token_bytes(32), new_secret()
    sent = composed(secret, encryption_key=base64.urlsafe_b64encode(key).decode().rstrip("="))
    payload = standardwebhooks.Webhook(secret).verify(sent.body, dict(sent.headers))
    assert payload["type"] == "export.succeeded"
    opened = jwe.decrypt_compact(payload["data"], OctKey.import_key(key))
    assert opened.protected == {"alg": "dir", "enc": "A256GCM"}
    assert json.loads(opened.plaintext or b"") == dict(MESSAGE.data)
    assert b"exp_1" not in sent.body
    assert composed(secret, encryption_key=base64.urlsafe_b64encode(key).decode()).body != sent.body


@pytest.mark.parametrize(("event_type", "state"), [("alert.firing", "firing"), ("alert.resolved", "resolved")])
async def test_a_sample_of_an_alert_is_in_its_state(resources: Resources, event_type: str, state: str) -> None:
    message = await messages.sample(resources, event_type)
    assert (message.type, message.data["state"]) == (event_type, state)
    assert (message.data["resolved_at"] is None) == (state == "firing")
    assert (message.data["value"] > message.data["threshold"]) == (state == "firing")


@pytest.mark.parametrize("event_type", EVENT_TYPES)
async def test_a_sample_is_an_event_of_its_type(resources: Resources, event_type: str) -> None:
    message = await messages.sample(resources, event_type)
    status = {"created": "PENDING", "started": "PROCESSING", "succeeded": "SUCCESS", "timed_out": "EXPIRED"}
    name = event_type.removeprefix("export.")
    assert message.type == event_type
    assert message.data["status"] == status.get(name, name.upper())
    assert message.data["dataset"] in resources.catalog.datasets
    assert (message.data["file"] is not None) == (name == "succeeded")
    assert abs(message.timestamp - datetime.now(UTC)) < timedelta(seconds=5)
