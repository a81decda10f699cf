"""Signatures: the vector of the specification, and the packages that receivers use."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import standardwebhooks
import svix
from hypothesis import given, settings
from hypothesis import strategies as st

from webapp.domain import signing
from webapp.domain.signing import BadSecret, is_signed, key_of, new_secret, signature, signature_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = "msg_p5jXN8AQM9LWM0D4loKWxJek"
TIMESTAMP = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

Verifier = Callable[[str, bytes, Mapping[str, str]], Any]


def by_standardwebhooks(secret: str, body: bytes, headers: Mapping[str, str]) -> Any:
    return standardwebhooks.Webhook(secret).verify(body.decode(), dict(headers))


def by_svix(secret: str, body: bytes, headers: Mapping[str, str]) -> Any:
    svix.Webhook(secret).verify(body, dict(headers))
    return json.loads(body)


VERIFIERS = [by_standardwebhooks, by_svix]


def test_the_vector_of_the_specification() -> None:
    assert signature(SECRET, MESSAGE, TIMESTAMP, BODY) == SIGNATURE
    at = datetime.fromtimestamp(TIMESTAMP, UTC)
    headers = dict(signature_headers([SECRET], MESSAGE, at, BODY))
    assert headers == {
        "webhook-id": MESSAGE,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
        "X-Signature": "sha256=" + hmac.new(key_of(SECRET), BODY, hashlib.sha256).hexdigest(),
    }


@pytest.mark.parametrize("verify", VERIFIERS)
@pytest.mark.parametrize("body", [b"{}", '{"name":"東京 – ß 😀"}'.encode(), b'{"a":1.10,  "b":"\\u0000"}'])
def test_packages_of_receivers_verify_what_we_send_with_any_of_its_secrets(verify: Verifier, body: bytes) -> None:
    secrets = [new_secret() for _ in range(3)]
    headers = dict(signature_headers(secrets, "evt_1", datetime.now(UTC), body))
    assert len(headers["webhook-signature"].split(" ")) == 3
    for secret in secrets:
        assert verify(secret, body, headers) == json.loads(body)


@pytest.mark.parametrize("verify", VERIFIERS)
@pytest.mark.parametrize(
    "spoilt",
    [
        {"webhook-id": "evt_2"},
        {"webhook-timestamp": str(int(datetime.now(UTC).timestamp()) + 2)},
        {"webhook-signature": SIGNATURE},
        {"webhook-signature": "v1,"},
    ],
)
def test_they_refuse_what_was_changed_and_so_do_we(verify: Verifier, spoilt: dict[str, str]) -> None:
    secret = new_secret()
    headers = dict(signature_headers([secret], "evt_1", datetime.now(UTC) - timedelta(seconds=9), BODY)) | spoilt
    with pytest.raises((standardwebhooks.WebhookVerificationError, svix.webhooks.WebhookVerificationError)):
        verify(secret, BODY, headers)
    assert not is_signed(
        secret, headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"], BODY
    )


def test_the_time_zone_of_the_clock_makes_no_difference() -> None:
    at = datetime(2026, 6, 1, 12, 0, 0, 999_999, tzinfo=UTC)
    there = at.astimezone(timezone(timedelta(hours=-5)))
    assert signature_headers([SECRET], "evt_1", at, BODY) == signature_headers([SECRET], "evt_1", there, BODY)


@pytest.mark.parametrize(
    ("timestamp", "given_signature", "verdict"),
    [
        ("1614265330", SIGNATURE, True),
        ("1614265330", f"v1,AAAA {SIGNATURE} v1a,other", True),
        ("1614265330", SIGNATURE.removeprefix("v1,"), False),
        ("1614265330", SIGNATURE.replace("v1,", "v2,"), False),
        ("1614265330", "", False),
        ("1614265330", "v1,ÿ", False),
        ("1614265331", SIGNATURE, False),
        ("", SIGNATURE, False),
        ("-1614265330", SIGNATURE, False),
        ("1614265330.0", SIGNATURE, False),
        ("１６１４２６５３３０", SIGNATURE, False),
        ("9" * 5000, SIGNATURE, False),
    ],
)
def test_verifying(timestamp: str, given_signature: str, verdict: bool) -> None:
    assert is_signed(SECRET, MESSAGE, timestamp, given_signature, BODY) is verdict


def test_a_new_secret_is_192_random_bits() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(key_of(secret)) for secret in made} == {24}
    assert all(secret.startswith("whsec_") for secret in made)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_short", "whsec_!!!!", "whsec_" + "A" * 31, "whsec_ä", f"whsec_{'A' * 92}"]
)
def test_what_is_no_secret(secret: str) -> None:
    with pytest.raises(BadSecret):
        key_of(secret)


@given(st.binary(min_size=24, max_size=64))
def test_keys_of_24_to_64_bytes_are_read_back(key: bytes) -> None:
    assert key_of(signing.PREFIX + base64.b64encode(key).decode()) == key


@settings(deadline=None)
@given(st.binary(max_size=200), st.text(max_size=30), st.integers(0, 10**11 - 1))
def test_what_is_signed_verifies_and_one_byte_more_does_not(body: bytes, message: str, timestamp: int) -> None:
    made = signature(SECRET, message, timestamp, body)
    assert is_signed(SECRET, message, str(timestamp), made, body)
    assert not is_signed(SECRET, message, str(timestamp), made, body + b"\n")
    assert not is_signed(new_secret(), message, str(timestamp), made, body)
