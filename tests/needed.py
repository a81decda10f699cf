"""What tests need of the machine: a server or a browser that is missing."""

from __future__ import annotations

import os

import pytest


def missing(what: str) -> None:
    """Skips on a person's machine, fails where everything is meant to be there."""
    sentence = f"{what} is not installed here, so this test cannot run."
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)
