"""Secrets at rest: what opens them, and what becomes of them when the key changes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.sealing import Sealer, Unsealable

OLD, NEW = Sealer("old key"), Sealer("new key")
ROTATING = Sealer("new key", "old key")


@given(st.text())
def test_what_was_sealed_is_opened(text: str) -> None:
    assert OLD.open(OLD.seal(text)) == text


def test_the_text_is_not_to_be_seen_and_never_sealed_alike() -> None:
    sealed = [OLD.seal("whsec_secret") for _ in range(2)]
    assert sealed[0] != sealed[1]
    assert all(b"whsec" not in base64.urlsafe_b64decode(one) for one in sealed)


def test_while_keys_rotate_the_old_one_opens_and_the_new_one_seals() -> None:
    assert ROTATING.open(OLD.seal("text")) == "text"
    assert NEW.open(ROTATING.seal("text")) == "text"
    with pytest.raises(Unsealable):
        OLD.open(ROTATING.seal("text"))


def test_what_was_sealed_again_does_without_the_old_key() -> None:
    resealed = ROTATING.resealed(OLD.seal("text"))
    assert NEW.open(resealed) == "text"


@pytest.mark.parametrize(
    "sealed",
    [
        pytest.param(NEW.seal("text"), id="of another key"),
        pytest.param(OLD.seal("text")[:-2] + "A=", id="changed"),
        "",
        "nonsense",
        "ä",
        "\0",
    ],
)
def test_what_another_key_sealed_or_somebody_changed_is_not_opened(sealed: str) -> None:
    with pytest.raises(Unsealable):
        OLD.open(sealed)
    with pytest.raises(Unsealable):
        OLD.resealed(sealed)


def test_keys_of_any_length_will_do() -> None:
    for key in ("", "k", "ключ", "k" * 5000):
        assert Sealer(key).open(Sealer(key).seal("text")) == "text"
