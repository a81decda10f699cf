"""How texts of PostgreSQL become Python's."""

from __future__ import annotations

from collections.abc import Callable

from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.string import TextLoader as TextLoader


def tolerant_loader(count: Callable[[], None]) -> type[Loader]:
    """For servers that do not check the encoding of their texts: bad bytes become U+FFFD, `count` is called."""

    class TolerantLoader(Loader):
        def load(self, data: Buffer) -> str:
            try:
                return bytes(data).decode()
            except UnicodeDecodeError:
                count()
                return bytes(data).decode(errors="replace")

    return TolerantLoader
