"""A worker's own `/metrics`: over HTTP on the first port that is free, and none when none is wanted."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from webapp.actions import workers
from webapp.domain.workers import Queue
from webapp.resources import Resources
from worker import metrics


def at_port(resources: Resources, port: int) -> Resources:
    return replace(resources, settings=replace(resources.settings, worker_metrics_port=port))


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A port that somebody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


async def test_several_workers_of_a_host_each_have_a_port(resources: Resources, taken: socket.socket) -> None:
    await workers.begin(resources, [Queue.EXPORTS])
    first = taken.getsockname()[1]
    async with metrics.exposed(at_port(resources, first)) as one, metrics.exposed(at_port(resources, first)) as two:
        assert one is not None
        assert two is not None
        assert first < one < two < first + metrics.PORTS
        async with httpx.AsyncClient() as http:
            answers = [await http.get(f"http://127.0.0.1:{port}/metrics") for port in (one, two)]
            assert (await http.get(f"http://127.0.0.1:{one}/")).status_code == 404
    for answer in answers:
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        slots = {sample.labels["state"]: sample.value for sample in families["exportdesk_worker_slots"].samples}
        assert slots == {"free": resources.settings.worker_slots, "taken": 0}
        assert families["process_resident_memory_bytes"].samples[0].value > 1e6
        assert families["exportdesk_live_connections"].samples == []


async def test_without_a_port_nothing_listens(resources: Resources) -> None:
    async with metrics.exposed(resources) as port:
        assert port is None


async def test_a_worker_works_without_a_port_to_be_had(
    resources: Resources, taken: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metrics, "PORTS", 1)
    async with metrics.exposed(at_port(resources, taken.getsockname()[1])) as port:
        assert port is None
    assert "no metrics of this worker" in caplog.text
