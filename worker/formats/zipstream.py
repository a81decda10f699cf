"""A zip archive written front to back into a sink that cannot seek.

Entries of unknown size use data descriptors *without* zip64: with both, LibreOffice refuses the file. So such an
entry must stay under 4 GiB (`ENTRY_LIMIT`); only the central directory switches to zip64, when offsets need it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from datetime import datetime

from isal import isal_zlib

from worker.formats.writer import ByteSink
from worker.sink import Compressor

ENTRY_LIMIT = 0xF0000000
"""Bytes that an entry may have before it is compressed, and safely after: deflate grows data by 0.01 % at most."""

DEFLATE_LEVEL = 1
RAW_WINDOW = -15
MAX_32 = 0xFFFFFFFF
DESCRIPTOR_FOLLOWS = 0x0008
UTF8_NAME = 0x0800
DEFLATED = 8
VERSION, VERSION_ZIP64 = 20, 45


@dataclass(slots=True)
class Entry:
    name: bytes
    offset: int
    flags: int
    crc: int = 0
    size: int = 0
    compressed: int = 0


class ZipStream:
    """`add` whole small entries, or `start`, `write` …, `finish` a long one; then `close`."""

    def __init__(self, sink: ByteSink, *, at: datetime) -> None:
        self._sink = sink
        self._position = 0
        self._entries: list[Entry] = []
        self._time = at.hour << 11 | at.minute << 5 | at.second // 2
        self._date = max(0, at.year - 1980) << 9 | at.month << 5 | at.day

    def add(self, name: str, data: bytes) -> None:
        entry = Entry(name.encode(), self._position, UTF8_NAME, zlib.crc32(data), len(data))
        deflater = _deflater()
        body = deflater.compress(data) + deflater.flush()
        entry.compressed = len(body)
        self._entries.append(entry)
        self._put(self._local_header(entry) + body)

    def start(self, name: str) -> None:
        self._entry = Entry(name.encode(), self._position, UTF8_NAME | DESCRIPTOR_FOLLOWS)
        self._entries.append(self._entry)
        self._deflater = _deflater()
        self._put(self._local_header(self._entry))

    def write(self, data: bytes | memoryview) -> None:
        entry = self._entry
        entry.crc = isal_zlib.crc32(data, entry.crc)  # pyright: ignore[reportUnknownMemberType]
        entry.size += len(data)
        self._put_body(self._deflater.compress(data))

    def finish(self) -> None:
        self._put_body(self._deflater.flush())
        entry = self._entry
        self._put(struct.pack("<4sLLL", b"PK\x07\x08", entry.crc, entry.compressed, entry.size))

    def close(self) -> None:
        start = self._position
        for entry in self._entries:
            self._put(self._central_header(entry))
        self._put(self._end(start, self._position - start))

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._position += len(data)

    def _put_body(self, data: bytes) -> None:
        if data:
            self._entry.compressed += len(data)
            self._put(data)

    def _local_header(self, entry: Entry) -> bytes:
        fixed = struct.pack(
            "<4sHHHHHLLLHH",
            *(b"PK\x03\x04", VERSION, entry.flags, DEFLATED, self._time, self._date),
            *(entry.crc, entry.compressed, entry.size, len(entry.name), 0),
        )
        return fixed + entry.name

    def _central_header(self, entry: Entry) -> bytes:
        far = entry.offset >= MAX_32
        extra = struct.pack("<HHQ", 1, 8, entry.offset) if far else b""
        version = VERSION_ZIP64 if far else VERSION
        fixed = struct.pack(
            "<4sHHHHHHLLLHHHHHLL",
            *(b"PK\x01\x02", version, version, entry.flags, DEFLATED, self._time, self._date),
            *(entry.crc, entry.compressed, entry.size, len(entry.name), len(extra), 0, 0, 0, 0),
            min(entry.offset, MAX_32),
        )
        return fixed + entry.name + extra

    def _end(self, start: int, size: int) -> bytes:
        count = len(self._entries)
        far = start >= MAX_32
        zip64 = b""
        if far:
            zip64 = struct.pack(
                "<4sQHHLLQQQQ", b"PK\x06\x06", 44, VERSION_ZIP64, VERSION_ZIP64, 0, 0, count, count, size, start
            ) + struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
        return zip64 + struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, count, count, size, min(start, MAX_32), 0)


def _deflater() -> Compressor:
    return isal_zlib.compressobj(DEFLATE_LEVEL, isal_zlib.DEFLATED, RAW_WINDOW)  # pyright: ignore[reportUnknownMemberType]
