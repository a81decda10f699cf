"""The rules and the dashboard: Prometheus' own tool runs the rules on series, and no query names what is not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from needed import missing
from prometheus_client.parser import text_string_to_metric_families

from webapp.cli import main
from webapp.domain.alerts import RULES, Alert
from webapp.domain.callbacks import ErrorClass
from webapp.monitoring.files import FILES, content

NAMES: dict[str, Alert] = {
    "ExportdeskQueueTimeHigh": Alert.QUEUE_TIME,
    "ExportdeskExportsStuck": Alert.STUCK_EXPORTS,
    "ExportdeskDeliverySuccessLow": Alert.DELIVERY_SUCCESS,
    "ExportdeskDeadLettersGrowing": Alert.DEAD_LETTERS,
    "ExportdeskNoWorker": Alert.NO_WORKER,
    "ExportdeskNotificationLatencyHigh": Alert.NOTIFICATION_LATENCY,
    "ExportdeskStorageNearlyFull": Alert.STORAGE,
}
WELL = ('exportdesk_worker_slots{state="free"}', "3x90")
Series = Sequence[tuple[str, str]]


def histogram(name: str, labels: str, bounds: Sequence[tuple[str, int]]) -> Series:
    """Cumulative buckets that grow by so many a minute."""
    return [(f'exportdesk_{name}_bucket{{{labels},le="{le}"}}', f"0+{step}x90") for le, step in bounds]


def deliveries(**a_minute: float) -> Series:
    reasons = {"succeeded": ""}
    return [
        (f'exportdesk_deliveries_total{{outcome="{outcome}",reason="{reasons.get(outcome, ErrorClass.TIMEOUT)}"}}',
         f"0+{step}x90")
        for outcome, step in a_minute.items()
    ]  # fmt: skip


QUICK, SLOW = [("60.0", 10), ("300.0", 10), ("900.0", 10), ("+Inf", 10)], [("300.0", 9), ("900.0", 10), ("+Inf", 10)]
CASES: dict[str, tuple[Series, str]] = {
    "all is well": ([
        *histogram("queue_time_seconds", 'dataset="a"', QUICK),
        ("exportdesk_oldest_queued_seconds", "12x90"),
        *deliveries(succeeded=95, retried=5),
        ("exportdesk_storage_bytes{state=\"used\"}", "80x90"), ("exportdesk_storage_bytes{state=\"free\"}", "20x90"),
        *histogram("notification_latency_seconds", 'channel="sse"', [("0.1", 10), ("5.0", 10), ("+Inf", 10)]),
    ], ""),
    "people wait": (histogram("queue_time_seconds", 'dataset="a"', SLOW), "ExportdeskQueueTimeHigh"),
    "the slow dataset is rare": ([
        *histogram("queue_time_seconds", 'dataset="a"', SLOW),
        *histogram("queue_time_seconds", 'dataset="b"', [("300.0", 90), ("900.0", 90), ("+Inf", 90)]),
    ], ""),
    "nobody takes an export": ([("exportdesk_oldest_queued_seconds", "0+60x90")], "ExportdeskExportsStuck"),
    "an export waited, then started": ([("exportdesk_oldest_queued_seconds", "0+60x15 0x75")], ""),
    "requests fail": (deliveries(succeeded=8, retried=2), "ExportdeskDeliverySuccessLow"),
    "the receiver is gone": (deliveries(retried=5), "ExportdeskDeliverySuccessLow"),
    "too few to tell": (deliveries(succeeded=0.6, retried=0.6), ""),
    "given up": (deliveries(succeeded=20, dead=0.5), "ExportdeskDeadLettersGrowing"),
    "given up now and then": (deliveries(succeeded=20, dead=0.1), ""),
    "no slot": ([('exportdesk_worker_slots{state="free"}', "3x60 0x30"), ('exportdesk_worker_slots{state="taken"}',
                                                                         "0x90")], "ExportdeskNoWorker"),
    "all slots taken": ([('exportdesk_worker_slots{state="free"}', "0x90"), ('exportdesk_worker_slots{state="taken"}',
                                                                            "3x90")], ""),
    "nothing to scrape": ([("up", "0x90")], "ExportdeskNoWorker"),
    "late news": (histogram("notification_latency_seconds", 'channel="sse"', [("5.0", 9), ("30.0", 10), ("+Inf", 10)]),
                  "ExportdeskNotificationLatencyHigh"),
    "polling is late": (histogram("notification_latency_seconds", 'channel="polling"', [("5.0", 1), ("+Inf", 10)]), ""),
    "the disk": ([('exportdesk_storage_bytes{instance="a",state="used"}', "95x90"),
                  ('exportdesk_storage_bytes{instance="a",state="free"}', "5x90")], "ExportdeskStorageNearlyFull"),
}  # fmt: skip


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        missing("promtool (Debian's package prometheus)")
    return str(found)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "alerts.yml"
    path.write_text(content("alerts"), encoding="utf-8")
    return path


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def case_of(series: Series, fires: str) -> dict[str, Any]:
    """After 80 minutes this fires, and nothing else does. JSON is YAML too."""
    given = dict(series)
    if not any(name.startswith(("exportdesk_worker_slots", "up")) for name in given):
        given |= [WELL]
    expected = [{"labels": f'{{alertname="{fires}"}}', "value": 1}] if fires else []
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "80m", "exp_samples": expected}],
    }


def test_the_rules_fire_and_stay_quiet_on_series(promtool: str, rules: Path, tmp_path: Path) -> None:
    assert f"SUCCESS: {len(Alert)} rules found" in run(promtool, "check", "rules", rules)
    path = tmp_path / "tests.yml"
    tests = [case_of(series, fires) for series, fires in CASES.values()]
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in run(promtool, "test", "rules", path)
    assert {fires for _, fires in CASES.values() if fires} == set(NAMES), "each of them is seen to fire"


def test_a_rule_waits_before_it_fires(promtool: str, rules: Path, tmp_path: Path) -> None:
    path, disk = tmp_path / "tests.yml", "exportdesk_storage_bytes{{instance='a',state='{}'}}"
    series = [(disk.format("used"), "10x9 95x60"), (disk.format("free"), "90x9 5x60"), WELL]
    case = case_of(series, "")
    case["promql_expr_test"][0]["eval_time"] = "14m"
    later = case_of(series, "ExportdeskStorageNearlyFull")
    later["promql_expr_test"][0]["eval_time"] = "16m"
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [case, later]}))
    assert "SUCCESS" in run(promtool, "test", "rules", path)


def test_thresholds_and_times_are_those_of_the_desk_itself() -> None:
    """Where the desk tells the share that succeeded, the rule tells the share that failed."""
    found = re.split(r"- alert: ", content("alerts"))[1:]
    assert [part.split()[0] for part in found] == list(NAMES)
    for part in found:
        rule = RULES[NAMES[part.split()[0]]]
        expression, minutes = re.search(r"expr:(.*)\n +for: (\d+)m", part, re.DOTALL).groups()  # type: ignore[union-attr]
        limit = 100 - rule.usual if rule is RULES[Alert.DELIVERY_SUCCESS] else rule.usual
        compared = {float(number) for number in re.findall(r"[<>] ([\d.]+)", expression)}
        assert compared == {limit}
        assert int(minutes) * 60 == rule.hold.total_seconds()


def queries(dashboard: Any) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable)


async def test_every_metric_that_is_asked_for_is_there(anonymous: httpx.AsyncClient) -> None:
    told = text_string_to_metric_families((await anonymous.get("/metrics")).text)
    there: set[str] = set()
    for family in told:
        endings = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}.get(family.type, ("",))
        there |= {family.name + ending for ending in endings}
    text = "\n".join([content("alerts"), *queries(json.loads(content("grafana")))])
    asked = set(re.findall(r"\b(?:exportdesk|process)_\w+", text))
    assert len(asked) > 12
    assert asked <= there
    in_the_file = re.findall(r"exportdesk_\w+", content("grafana"))
    assert set(in_the_file) <= there, "nothing of the dashboard was overlooked"


def test_queries_of_the_dashboard_are_promql(promtool: str, tmp_path: Path) -> None:
    """As recording rules, which promtool can check."""
    asked = sorted(set(queries(json.loads(content("grafana")))))
    values, plain = [query for query in asked if query.startswith("label_values(")], list[str]()
    assert all(re.fullmatch(r"label_values\(\w+, \w+\)", query) for query in values)
    for query in set(asked) - set(values):
        plain.append(re.sub(r"\$(dataset|channel)", ".*", query.replace("$__rate_interval", "5m")))
    records = [{"record": f"asked:{number}", "expr": query} for number, query in enumerate(plain)]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": records}]}))
    assert f"SUCCESS: {len(plain)} rules found" in run(promtool, "check", "rules", path)


@pytest.mark.parametrize("name", FILES)
def test_they_are_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitoring", name]) == 0
    assert capsys.readouterr().out == content(name)


@pytest.mark.parametrize(("name", "path"), [(name, f"/monitor/{file}") for name, file in FILES.items()])
async def test_they_are_served_to_admins(name: str, path: str, admin_client: httpx.AsyncClient) -> None:
    answer = await admin_client.get(path)
    assert (answer.status_code, answer.text) == (200, content(name))
    assert answer.headers["content-disposition"].startswith('attachment; filename="exportdesk-')


def covered(place: dict[str, int]) -> list[tuple[int, int]]:
    across, down = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
    return [(x, y) for x in across for y in down]


def test_the_dashboard_lies_on_its_grid() -> None:
    dashboard = json.loads(content("grafana"))
    places = [(panel["gridPos"], panel["title"]) for panel in dashboard["panels"]]
    cells = [
        (x, y) for at, _ in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)), "no panel covers another"
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
