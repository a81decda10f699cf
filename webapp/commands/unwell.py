"""What `exportdesk doctor` finds wrong."""

from __future__ import annotations


class Unwell(Exception):
    """What is wrong, and the mend."""

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem)
        self.mend = mend


class Doubtful(Unwell):
    """What works for now: a warning, and what to do."""
