"""What supervisor and child say to each other over the pipe: one JSON object a line."""

from __future__ import annotations

from typing import Any

import msgspec


class Assignment(msgspec.Struct, frozen=True):
    """Everything a child needs for one attempt. `url` and `params` never leave the pipe."""

    export_id: str
    attempt: int
    dataset: str
    title: str
    url: str
    sql: str
    params: dict[str, Any]
    shown_params: dict[str, Any]
    format: str
    options: dict[str, Any]
    path: str
    row_limit: int | None
    max_bytes: int | None
    memory_mib: int


class Progressed(msgspec.Struct, frozen=True, tag="progressed"):
    phase: str
    rows_done: int
    rows_total: int | None
    bytes: int


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The file is complete and synced at the assignment's path; `warnings` are (code, message, count)."""

    rows: int
    size: int
    sha256: str
    warnings: list[tuple[str, str, int]]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The temporary file is gone. `details` fill the code's sentence."""

    code: str
    details: dict[str, str]


Message = Progressed | Finished | Failed
CANCEL = b"cancel\n"

_messages: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_assignments = msgspec.json.Decoder(Assignment)


def encode(message: Message | Assignment) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode_message(line: bytes) -> Message:
    return _messages.decode(line)


def decode_assignment(line: bytes) -> Assignment:
    return _assignments.decode(line)
