"""The README as data: its fenced blocks in order, its headings, and where it links to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cli.command_line import CHECKOUT

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
LINES = re.compile(
    r"^(?:(?P<marks>#{1,4}) (?P<heading>[^\n]+)| *```(?P<language>\w*)\n(?P<code>.*?)^ *```)$", re.M | re.S
)


@dataclass(frozen=True, slots=True)
class Block:
    """`heading` is the nearest one above."""

    heading: str
    language: str
    code: str

    @property
    def commands(self) -> list[str]:
        """Lines of a shell block, without comments."""
        bare = (re.sub(r"(^| +)#.*", "", line) for line in self.code.splitlines())
        return [line for line in bare if line]


def _read(text: str) -> tuple[Sequence[str], Sequence[Block]]:
    headings: list[str] = []
    blocks: list[Block] = []
    for found in LINES.finditer(text):
        if found["heading"]:
            headings.append(found["heading"])
        else:
            blocks.append(Block(headings[-1], found["language"], found["code"]))
    return headings, blocks


HEADINGS, BLOCKS = _read(README)


def anchor(heading: str) -> str:
    """As the hosts of repositories make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def block(heading: str, language: str, number: int = 0) -> Block:
    return [each for each in BLOCKS if (each.heading, each.language) == (heading, language)][number]
