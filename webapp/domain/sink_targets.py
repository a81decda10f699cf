"""Where the change log goes: the URL of a Kafka topic or a Redis stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]{2,45}\]")
NAMES = {
    "topic": re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}"),
    "stream": re.compile(r"[A-Za-z0-9._:-]{1,249}"),
}
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
ENTRIES_KEPT = 1_000_000
MOST_ENTRIES = 1_000_000_000
MOST_HOSTS = 16
MOST_DATABASES = 16_384


class SinkKind(StrEnum):
    KAFKA = "kafka"
    REDIS = "redis"


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a URL that begins so leads to, and which options it may have."""

    kind: SinkKind
    is_encrypted: bool
    port: int
    options: frozenset[str]


SCHEMES: Mapping[str, Scheme] = {
    "kafka": Scheme(SinkKind.KAFKA, False, 9092, frozenset({"mechanism"})),
    "kafkas": Scheme(SinkKind.KAFKA, True, 9092, frozenset({"mechanism", "ca"})),
    "redis": Scheme(SinkKind.REDIS, False, 6379, frozenset({"maxlen"})),
    "rediss": Scheme(SinkKind.REDIS, True, 6379, frozenset({"maxlen", "ca"})),
}
"""`mechanism`: how a person signs in to Kafka. `ca`: a file of certificates. `maxlen`: about how many entries a stream
keeps."""


class BadSinkTarget(ValueError):
    """A sentence for each thing that is wrong; none quotes a password."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """`hosts`: `host:port`; a stream has one. `name`: the topic or stream. `database` is of Redis."""

    kind: SinkKind
    hosts: tuple[str, ...]
    name: str
    is_encrypted: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    mechanism: str = MECHANISMS[0]
    ca: str | None = None
    maxlen: int = ENTRIES_KEPT

    @property
    def place(self) -> str:
        """By which its position is kept: what it is and what it is called, but not on which hosts it is."""
        return f"{self.kind}:{self.name}"

    def __str__(self) -> str:
        what = "topic" if self.kind is SinkKind.KAFKA else "stream"
        return f"the {what} {self.name} at {', '.join(self.hosts)}"


def parse_sink(url: str) -> SinkTarget:
    """`kafka://[user:password@]host[:port][,…]/topic`, `redis://[user:password@]host[:port][/database]/stream`; with
    TLS `kafkas` and `rediss`. Raises BadSinkTarget."""
    try:
        parts = urlsplit(url)
        scheme = SCHEMES[parts.scheme]
    except (ValueError, KeyError):
        raise BadSinkTarget([f"must start with {', '.join(f'{each}://' for each in SCHEMES)}"]) from None
    problems: list[str] = []
    credentials, _, netloc = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    hosts = _hosts(netloc, scheme, problems)
    database, name = _name(parts.path.removeprefix("/"), scheme, problems)
    options = _options(parts.query, scheme, problems)
    if scheme.kind is SinkKind.KAFKA and credentials and not (user and password):
        problems.append("write both a user and a password, or neither")
    if problems:
        raise BadSinkTarget(problems)
    return SinkTarget(
        kind=scheme.kind,
        hosts=hosts,
        name=name,
        is_encrypted=scheme.is_encrypted,
        user=unquote(user) or None,
        password=unquote(password) or None,
        database=database,
        mechanism=options.get("mechanism", MECHANISMS[0]),
        ca=options.get("ca"),
        maxlen=int(options.get("maxlen", ENTRIES_KEPT)),
    )


def _hosts(netloc: str, scheme: Scheme, problems: list[str]) -> tuple[str, ...]:
    given = netloc.split(",")
    if len(given) > (MOST_HOSTS if scheme.kind is SinkKind.KAFKA else 1):
        problems.append(f"name at most {MOST_HOSTS} hosts, and a Redis by one")
    found: list[str] = []
    for one in given:
        match = re.fullmatch(rf"({HOST.pattern})(?::([0-9]{{1,5}}))?", one)
        if match is None or not 1 <= int(match[2] or scheme.port) <= 65535:
            problems.append("name its host, as in host:port, with a port from 1 to 65535")
            break
        found.append(f"{match[1]}:{match[2] or scheme.port}")
    return tuple(found)


def _name(path: str, scheme: Scheme, problems: list[str]) -> tuple[int, str]:
    """The database, and the topic or the stream."""
    what, database = ("topic", "0") if scheme.kind is SinkKind.KAFKA else ("stream", "0")
    if what == "stream" and "/" in path:
        database, _, path = path.partition("/")
        if not (database.isascii() and database.isdigit() and len(database) < 6 and int(database) < MOST_DATABASES):
            problems.append("the part before the stream is the number of a database, as in redis://host/2/stream")
    if not NAMES[what].fullmatch(path):
        extra = "" if what == "topic" else ", colons"
        problems.append(f"end it with /{what}: at most 249 letters, digits, points{extra}, hyphens and underscores")
    return int(database) if database.isdigit() else 0, path


def _options(query: str, scheme: Scheme, problems: list[str]) -> Mapping[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs) or not options.keys() <= scheme.options:
        known = ", ".join(sorted(scheme.options))
        problems.append(f"options that it may have, each once: {known}")
        return {}
    if options.get("mechanism", MECHANISMS[0]) not in MECHANISMS:
        problems.append(f"mechanism must be one of {', '.join(MECHANISMS)}")
    maxlen = options.get("maxlen", "1")
    if not (maxlen.isascii() and maxlen.isdigit() and len(maxlen) < 12 and 1 <= int(maxlen) <= MOST_ENTRIES):
        problems.append(f"maxlen must be a whole number from 1 to {MOST_ENTRIES}")
    return options
