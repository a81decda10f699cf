"""What a receiver must check of a callback."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.domain import receiving
from webapp.domain.receiving import Arrival, SignatureHeaders, Verdict, judge, kept_body, kept_headers, parse_networks
from webapp.domain.signing import new_secret, signature_headers

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECRET, OTHER = new_secret(), new_secret()
BODY = b'{"type":"export.created"}'


def signed(*, body: bytes = BODY, at: datetime = AT, **changes: str) -> SignatureHeaders:
    headers = signature_headers([SECRET], "evt_1", at, body)
    arrival = Arrival("", tuple((name.lower(), value) for name, value in headers), body)
    return replace(arrival.signature, **changes)


@pytest.mark.parametrize(
    ("given_headers", "secrets", "verdict"),
    [
        (signed(), [SECRET], Verdict.VERIFIED),
        (signed(), [OTHER, SECRET], Verdict.VERIFIED),
        (signed(), [OTHER], Verdict.WRONG_SIGNATURE),
        (signed(body=BODY + b" "), [SECRET], Verdict.WRONG_SIGNATURE),
        (signed(id="evt_2"), [SECRET], Verdict.WRONG_SIGNATURE),
        (signed(timestamp="soon"), [SECRET], Verdict.WRONG_SIGNATURE),
        (signed(signature="v1,"), [SECRET], Verdict.WRONG_SIGNATURE),
        (signed(), [], Verdict.NO_ENDPOINT),
        (signed(id=""), [SECRET], Verdict.NO_SIGNATURE),
        (signed(timestamp=""), [SECRET], Verdict.NO_SIGNATURE),
        (signed(signature=""), [], Verdict.NO_SIGNATURE),
        (SignatureHeaders("", "", ""), [], Verdict.NO_SIGNATURE),
    ],
)
def test_a_verdict(given_headers: SignatureHeaders, secrets: list[str], verdict: Verdict) -> None:
    assert judge(given_headers, secrets, BODY, at=AT) is verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (0, Verdict.VERIFIED),
        (300, Verdict.VERIFIED),
        (301, Verdict.TOO_OLD),
        (86_400, Verdict.TOO_OLD),
        (-300, Verdict.VERIFIED),
        (-301, Verdict.TOO_EARLY),
    ],
)
def test_a_right_signature_is_good_for_five_minutes_either_way(seconds: int, verdict: Verdict) -> None:
    late = signed(at=AT - timedelta(seconds=seconds))
    assert judge(late, [SECRET], BODY, at=AT) is verdict
    assert receiving.age_of(late, AT) == seconds
    assert judge(late, [OTHER], BODY, at=AT) is Verdict.WRONG_SIGNATURE


@pytest.mark.parametrize("timestamp", ["", "-1", "1.5", "1e3", "９", "9" * 12, "9" * 5000, " 1"])
def test_what_is_no_timestamp_has_no_age(timestamp: str) -> None:
    assert receiving.age_of(SignatureHeaders("", timestamp, ""), AT) is None


@given(st.text(), st.text(), st.text(), st.binary())
def test_nothing_that_is_sent_is_more_than_wrong(message: str, timestamp: str, signature: str, body: bytes) -> None:
    found = judge(SignatureHeaders(message, timestamp, signature), [SECRET], body, at=AT)
    assert found in {Verdict.WRONG_SIGNATURE, Verdict.NO_SIGNATURE}


@given(st.text("0123456789", min_size=1, max_size=11))
def test_every_timestamp_that_is_accepted_has_an_age(timestamp: str) -> None:
    assert receiving.age_of(SignatureHeaders("", timestamp, ""), AT) is not None


def test_a_forged_request_makes_no_duplicate_of_a_real_one() -> None:
    for verdict in (Verdict.VERIFIED, Verdict.TOO_OLD, Verdict.TOO_EARLY, Verdict.NO_ENDPOINT):
        counted = receiving.counted_before(verdict)
        assert Verdict.VERIFIED in counted
        assert not counted & {Verdict.WRONG_SIGNATURE, Verdict.NO_SIGNATURE, Verdict.REFUSED}


def test_a_forged_request_is_a_duplicate_of_any_that_was_looked_at() -> None:
    assert receiving.counted_before(Verdict.WRONG_SIGNATURE) == set(Verdict) - {Verdict.REFUSED}


@pytest.mark.parametrize(
    ("address", "allowed", "is_allowed"),
    [
        ("203.0.113.7", [], True),
        ("", [], True),
        ("203.0.113.7", ["203.0.113.7/32"], True),
        ("203.0.113.8", ["203.0.113.7/32"], False),
        ("::ffff:203.0.113.7", ["203.0.113.0/24"], True),
        ("203.0.113.7", ["10.0.0.0/8", "203.0.113.0/24"], True),
        ("::1", ["::1/128"], True),
        ("2001:db8::1", ["2001:db8::/32"], True),
        ("2001:db9::1", ["2001:db8::/32"], False),
        ("", ["0.0.0.0/0", "::/0"], False),
        ("unix:", ["0.0.0.0/0"], False),
    ],
)
def test_callers_against_an_allow_list(address: str, allowed: list[str], is_allowed: bool) -> None:
    assert receiving.is_allowed(address, allowed) is is_allowed


def test_networks_are_kept_in_one_spelling_and_once() -> None:
    texts = ["10.0.0.0/8", "203.0.113.7", "10.0.0.0/255.0.0.0", "2001:DB8::/32", "::1"]
    assert parse_networks(texts) == ("10.0.0.0/8", "203.0.113.7/32", "2001:db8::/32", "::1/128")


@pytest.mark.parametrize("text", ["", "example.com", "10.0.0.1/8", "10.0.0.0/33", "10.0.0", "x" * 500])
def test_what_is_no_network(text: str) -> None:
    with pytest.raises(ValueError, match="is not a network"):
        parse_networks([text])


def test_an_allow_list_has_an_end() -> None:
    with pytest.raises(ValueError, match="at most 50"):
        parse_networks(f"10.0.0.{n}" for n in range(51))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (("cookie", "session=secret"), ()),
        (("authorization", "Bearer secret"), (("authorization", "…"),)),
        (("proxy-authorization", "Basic c2VjcmV0"), (("proxy-authorization", "…"),)),
        (("x-api-key", "secret"), (("x-api-key", "…"),)),
        (("x-request-id", "secret"), (("x-request-id", "…"),)),
        (("x-of-a-trial", "secret"), (("x-of-a-trial", "…"),)),
        (("x-forwarded-for", "10.0.0.9"), (("x-forwarded-for", "10.0.0.9"),)),
        (("via", "a\0b"), (("via", "a\ufffdb"),)),
        (("webhook-id", "evt_1"), (("webhook-id", "evt_1"),)),
        (("user-agent", "x" * 9000), (("user-agent", "x" * 2000),)),
    ],
)
def test_headers_are_kept_without_secrets(sent: tuple[str, str], kept: Any) -> None:
    assert kept_headers([sent], secret=frozenset({"x-request-id"})) == kept


def test_no_more_headers_are_kept_than_a_page_can_show() -> None:
    assert len(kept_headers([("x", "y")] * 500, secret=frozenset())) == receiving.HEADERS_KEPT


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", ("", False)),
        ("東京".encode(), ("東京", False)),
        (b"\xff\0", ("\ufffd\ufffd", False)),
        (b"x" * 65_536, ("x" * 65_536, False)),
        (b"x" * 65_537, ("x" * 65_536, True)),
        (b"x" * 65_535 + "東".encode(), ("x" * 65_535, True)),
    ],
)
def test_of_a_body_its_beginning_is_kept(body: bytes, kept: tuple[str, bool]) -> None:
    assert kept_body(body) == kept


def test_what_is_counted_is_not_dropped_meanwhile() -> None:
    assert receiving.RATE + receiving.REFUSED_RATE <= receiving.REQUESTS_KEPT
