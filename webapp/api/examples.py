"""The examples of the OpenAPI document, by type. Exports, events, endpoints and deliveries are made by the code that
makes the real ones; a test holds all of them against their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from webapp.actions.messages import SAMPLES, alert_sample
from webapp.actions.users import Person
from webapp.api import (
    acks,
    answers,
    audit,
    callbacks,
    deliveries,
    grants,
    groups,
    requests,
    saved_orders,
    schedules,
    shares,
    tokens,
    users,
    workers,
)
from webapp.domain.access import Role, Scope
from webapp.domain.alerts import ALERT_TYPES
from webapp.domain.attempts import Attempt, Outcome, attempt_json
from webapp.domain.callbacks import (
    Answer,
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    EndpointSettings,
    ErrorClass,
    Secret,
)
from webapp.domain.events import Event, event_json, event_type, rfc3339, snapshot
from webapp.domain.exports import Export, Status
from webapp.domain.saved_orders import SavedOrder, saved_order_json
from webapp.domain.schedules import Schedule, schedule_json
from webapp.domain.shares import Share, share_json
from webapp.domain.workers import Pause, Queue, Worker
from webapp.store.audit import Entry
from webapp.store.grants import Grant, Group
from webapp.store.people import ApiToken, User
from webapp.store.rosters import Membership

AT = datetime(2026, 1, 31, 8, 0, 40, tzinfo=UTC)
_ID = "01m8mtv6eyecta8qms1nden14k"
ORDERED = Export(
    id=f"exp_{_ID}",
    owner=f"usr_{_ID}",
    dataset="orders",
    params={"country": "DE"},
    format="csv",
    options={"bom": False, "csv_text": "raw", "delimiter": ",", "compression": "none"},
    order_key="",
    status=Status.PENDING,
    version=1,
    created_at=AT - timedelta(seconds=40),
)
ENDPOINT = Endpoint(
    id=f"end_{_ID}",
    settings=EndpointSettings("https://receiver.example/exports", description="The warehouse"),
    secrets=(Secret("whsec_" + "A" * 32, AT),),
    created_by=f"usr_{_ID}",
    created_at=AT,
    updated_at=AT,
)
DELIVERY = Delivery(
    id=f"dlv_{_ID}",
    event_id=f"evt_{_ID}",
    event_type="export.succeeded",
    export_id=ORDERED.id,
    endpoint_id=ENDPOINT.id,
    state=DeliveryState.PENDING,
    created_at=AT,
    attempts=1,
    failures=1,
    next_attempt_at=AT + timedelta(seconds=5),
    last_attempt_at=AT,
    last_status=502,
    last_error=ErrorClass.HTTP_5XX,
)
TRIED = DeliveryAttempt(
    id=f"att_{_ID}",
    delivery_id=DELIVERY.id,
    endpoint_id=ENDPOINT.id,
    number=1,
    started_at=AT,
    finished_at=AT + timedelta(seconds=0.2),
    url=ENDPOINT.settings.url,
    request_headers=(("Content-Type", "application/json"),),
    request_body='{"type":"export.succeeded","timestamp":"2026-01-31T08:00:40.000Z","data":{}}',
    answer=Answer(ErrorClass.HTTP_5XX, 502, (("Content-Type", "text/plain"),), "bad gateway", seconds=0.2),
)


SHARE = Share(ORDERED.id, f"usr_{_ID}", "bo", "The figures you asked for.", "nightly", created_at=AT)
SAVED = SavedOrder(
    id=f"sav_{_ID}",
    owner=ORDERED.owner,
    name="Germany",
    dataset=ORDERED.dataset,
    params=ORDERED.params,
    labels={},
    format=ORDERED.format,
    options=ORDERED.options,
    zone="Europe/Berlin",
    created_at=AT,
    updated_at=AT,
)
MONDAY = datetime(2026, 2, 2, 7, 30, tzinfo=UTC)
SCHEDULE = Schedule(SAVED.id, "30 8 * * 1", "Europe/Berlin", MONDAY, created_at=AT, updated_at=AT)
TOKEN = ApiToken(
    id=f"tok_{_ID}",
    kind="api",
    name="nightly",
    user_id=ORDERED.owner,
    created_at=AT,
    expires_at=AT + timedelta(days=90),
    revoked_at=None,
    last_used_at=None,
    scopes=frozenset({Scope.READ, Scope.EXPORT}),
)
GROUP = Group(f"grp_{_ID}", "Warehouse", AT, 12)
PERSON = Person(
    User(ORDERED.owner, "nightly", Role.USER, None, AT, None),
    AT + timedelta(days=7),
    [Membership(GROUP.id, GROUP.name)],
)
GRANT = Grant(f"grt_{_ID}", ORDERED.dataset, None, GROUP.id, GROUP.name, AT)
ENTRY = Entry(f"aud_{_ID}", "admin", "grant.added", ORDERED.dataset, {"group": GROUP.name}, AT)
WORKER = Worker(f"wrk_{_ID}", (Queue.EXPORTS,), "desk-1", 4711, "0.1.0", 2, started_at=AT, heartbeat_at=AT)


def exported(event: str, base_url: str) -> dict[str, Any]:
    """The export as it is when this event happens to it."""
    return snapshot(SAMPLES[event](ORDERED, AT), base_url=base_url)


def called_back(event: str, base_url: str) -> dict[str, Any]:
    """The body of a callback."""
    is_alert = event in ALERT_TYPES
    data = alert_sample(event, AT, base_url=base_url) if is_alert else exported(event, base_url)
    return {"type": event, "timestamp": rfc3339(AT), "data": data}


def examples(base_url: str) -> Mapping[type, Any]:
    """By the type of a body or an answer."""
    done = SAMPLES["export.succeeded"](ORDERED, AT)
    export = snapshot(done, base_url=base_url)
    event = event_json(Event(f"evt_{_ID}", 1234, event_type(done), done.id, done.owner, done.version, AT, export))
    attempt = attempt_json(Attempt(1, "exports-1", AT - timedelta(seconds=30), AT, Outcome.SUCCEEDED, None, 20_000))
    endpoint = callbacks.described(ENDPOINT)
    delivery, tried = deliveries.described(DELIVERY), deliveries.attempted(TRIED)
    secret = ENDPOINT.secrets[0].value
    trial = {name: tried[name] for name in ("error", "message", "seconds", "request", "response")}
    found: dict[type, Any] = {
        answers.Dataset: DATASET,
        answers.DatasetPage: _page(DATASET),
        answers.ChoicePage: _page({"value": "DE", "label": "Germany"}),
        answers.Preview: PREVIEW,
        answers.Export: export,
        answers.OrderedExport: exported("export.queued", base_url),
        answers.ExportPage: _page(export),
        answers.Share: share_json(SHARE),
        answers.SharePage: _page(share_json(SHARE)),
        answers.AttemptPage: _page(attempt),
        answers.EventPage: _page(event),
        answers.Reminder: {"type": "export.succeeded", "deliveries": 1},
        answers.Endpoint: endpoint,
        answers.ChangedEndpoint: endpoint,
        answers.CreatedEndpoint: endpoint | {"secret": secret},
        answers.RotatedEndpoint: endpoint
        | {"secret": secret, "old_secrets_end_at": [rfc3339(AT + timedelta(hours=24))]},
        answers.SavedOrder: saved_order_json(SAVED),
        answers.Schedule: schedule_json(SCHEDULE, [MONDAY]),
        answers.SavedOrderPage: _page(saved_order_json(SAVED)),
        answers.Account: ACCOUNT,
        answers.Token: tokens.described(TOKEN),
        answers.TokenPage: _page(tokens.described(TOKEN)),
        answers.CreatedToken: tokens.described(TOKEN) | {"token": "exd_" + "A" * 43},
        answers.User: users.described(PERSON),
        answers.UserPage: _page(users.described(PERSON)),
        answers.Invitation: {
            "user": users.described(PERSON),
            "link": f"{base_url}/sign-in/once/{'A' * 43}?next=%2Faccount%23password",
        },
        answers.Group: groups.described(GROUP),
        answers.GroupPage: _page(groups.described(GROUP)),
        answers.Grant: grants.described(GRANT),
        answers.GrantPage: _page(grants.described(GRANT)),
        answers.DatasetAccess: ACCESS,
        answers.DatasetAccessPage: _page(ACCESS),
        answers.AuditEntry: audit.described(ENTRY),
        answers.AuditPage: _page(audit.described(ENTRY)),
        answers.Worker: workers.described(WORKER, {}, AT),
        answers.WorkerPage: _page(workers.described(WORKER, {}, AT)),
        answers.QueueState: workers.queue_described(Queue.EXPORTS, Pause(AT, "admin")),
        answers.QueuePage: _page(workers.queue_described(Queue.EXPORTS, None)),
        answers.EndpointPage: _page(endpoint),
        answers.Counted: {"count": 12},
        answers.Hosts: {"hosts": ["receiver.example"]},
        answers.Trial: {"succeeded": False, "at": rfc3339(AT), **trial},
        answers.Delivery: delivery,
        answers.LoggedDelivery: delivery | {"attempt_log": [tried]},
        answers.DeliveryPage: _page(delivery),
    }
    return {**found, **BODIES}


def _page(item: Any) -> dict[str, Any]:
    return {"items": [item], "next_cursor": None}


DATASET: Mapping[str, Any] = {
    "name": "orders",
    "title": "Orders",
    "description": "Every order, one row each.",
    "parameters": {
        "type": "object",
        "properties": {"country": {"title": "Country", "type": "string", "maxLength": 2}},
        "required": [],
        "additionalProperties": False,
    },
    "formats": ["csv", "xlsx", "jsonl", "parquet"],
    "limits": {"rows": None, "bytes": None, "execution_seconds": 1800, "memory_mib": 512},
}
ACCESS: Mapping[str, Any] = {
    "dataset": "orders",
    "title": "Orders",
    "roles": ["admin", "user"],
    "restricted": True,
    "grants": 1,
}
ACCOUNT: Mapping[str, Any] = {
    "id": ORDERED.owner,
    "name": "nightly",
    "role": "user",
    "scopes": ["read", "export"],
    "language": None,
    "timezone": None,
}
PREVIEW: Mapping[str, Any] = {
    "columns": [{"name": "id", "kind": "integer"}, {"name": "country", "kind": "text"}],
    "rows": [[1, "DE"], [2, "DE"]],
    "truncated": True,
    "rows_estimate": 20_000,
    "rows_estimate_is_exact": True,
    "expected_bytes": 2_600_000,
    "expected_seconds": 1.5,
    "notices": [],
}
BODIES: Mapping[type, Any] = {
    requests.OrderBody: {"dataset": "orders", "params": {"country": "DE"}, "format": "csv"},
    requests.PreviewBody: {"params": {"country": "DE"}},
    requests.AnnotationBody: {"name": "January", "note": "For the yearly report."},
    shares.ShareBody: {"note": "The figures you asked for."},
    saved_orders.SavedOrderBody: {"name": "Germany", "dataset": "orders", "params": {"country": "DE"}},
    schedules.ScheduleBody: {"cron": "30 8 * * 1", "zone": "Europe/Berlin"},
    saved_orders.SavedOrderChange: {"name": "Germany, all of it"},
    tokens.TokenBody: {"name": "nightly", "scopes": ["read", "export"], "lifetime": "90d"},
    users.InvitationBody: {"name": "nightly", "role": "user"},
    users.UserChange: {"role": "admin"},
    groups.GroupBody: {"name": "Warehouse"},
    grants.GrantBody: {"dataset": "orders", "group_id": GROUP.id},
    workers.DrainBody: {"within": "10m"},
    acks.ReminderBody: {"to": "all"},
    acks.AcknowledgementBody: {"events": [f"evt_{_ID}"], "channel": "sse", "held_ms": [250]},
    callbacks.EndpointBody: {
        "url": ENDPOINT.settings.url,
        "description": ENDPOINT.settings.description,
        "event_types": ["export.succeeded", "export.failed"],
        "schedule": "standard",
    },
    callbacks.TrialBody: {"event_type": "export.succeeded"},
    callbacks.UnsavedTrialBody: {"url": ENDPOINT.settings.url, "event_type": "export.succeeded"},
    callbacks.RotationBody: {"overlap": "24h"},
    callbacks.RecoveryBody: {"since": "2026-01-31T08:00:00Z"},
    callbacks.HostsBody: {"hosts": ["receiver.example"]},
    deliveries.RedeliveryBody: {"endpoint": ENDPOINT.id, "status": ["dead"]},
}


def plain(value: Any) -> Any:
    """As it stands in JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))
