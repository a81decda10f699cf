"""URLs of the sink: what they mean, and what is said about those that mean nothing."""

from __future__ import annotations

import pytest

from webapp.domain.sink_targets import BadSinkTarget, SinkKind, SinkTarget, parse_sink

KAFKA, REDIS = SinkKind.KAFKA, SinkKind.REDIS
HOST = "name its host, as in host:port, with a port from 1 to 65535"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("kafka://broker/exports", SinkTarget(KAFKA, ("broker:9092",), "exports")),
        ("kafka://a:1,b:2/t.o-p_1", SinkTarget(KAFKA, ("a:1", "b:2"), "t.o-p_1")),
        ("kafkas://b/t?ca=/ca.pem", SinkTarget(KAFKA, ("b:9092",), "t", is_encrypted=True, ca="/ca.pem")),
        (
            "kafkas://me:a%2Fb@b/t?mechanism=PLAIN",
            SinkTarget(KAFKA, ("b:9092",), "t", True, "me", "a/b", mechanism="PLAIN"),
        ),
        ("redis://[::1]:7/exports", SinkTarget(REDIS, ("[::1]:7",), "exports")),
        ("redis://:hush@r/2/a:b?maxlen=5", SinkTarget(REDIS, ("r:6379",), "a:b", False, None, "hush", 2, maxlen=5)),
        ("rediss://me:hush@r/s", SinkTarget(REDIS, ("r:6379",), "s", True, "me", "hush")),
    ],
)
def test_what_a_url_means(url: str, target: SinkTarget) -> None:
    assert parse_sink(url) == target


@pytest.mark.parametrize(
    ("url", "problems"),
    [
        ("http://hush@host/x", ["must start with kafka://, kafkas://, redis://, rediss://"]),
        ("kafka://[hush/x", ["must start with kafka://, kafkas://, redis://, rediss://"]),
        (
            "kafka://b",
            ["end it with /topic: at most 249 letters, digits, points, hyphens and underscores"],
        ),
        (
            "redis://r/2/",
            ["end it with /stream: at most 249 letters, digits, points, colons, hyphens and underscores"],
        ),
        ("kafka://b/..", ["end it with /topic: at most 249 letters, digits, points, hyphens and underscores"]),
        ("kafka://b:0/t", [HOST]),
        ("kafka://a,,b/t", [HOST]),
        ("redis://me:hush@a b/t", [HOST]),
        ("redis://a,b/t", ["name at most 16 hosts, and a Redis by one"]),
        ("kafka://hush@b/t", ["write both a user and a password, or neither"]),
        (
            "redis://r/x/s",
            ["the part before the stream is the number of a database, as in redis://host/2/stream"],
        ),
        ("redis://r/s?maxlen=0", ["maxlen must be a whole number from 1 to 1000000000"]),
        ("kafka://b/t?mechanism=hush", ["mechanism must be one of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN"]),
        ("kafka://b/t?password=hush", ["options that it may have, each once: mechanism"]),
        (
            "kafka://hush:@b:99999/a/b?x",
            [
                HOST,
                "end it with /topic: at most 249 letters, digits, points, hyphens and underscores",
                "options that it may have, each once: mechanism",
                "write both a user and a password, or neither",
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_url(url: str, problems: list[str]) -> None:
    with pytest.raises(BadSinkTarget) as caught:
        parse_sink(url)
    assert caught.value.problems == problems
    assert "hush" not in str(caught.value)


def test_a_password_is_never_shown() -> None:
    target = parse_sink("kafkas://me:hush-hush@b/t")
    assert "hush-hush" not in f"{target} {target!r} {target.place}"
