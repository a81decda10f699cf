"""What the API answers, as types: the OpenAPI document is made of them, and tests hold real answers against it.

Field for field they are what `domain.events.snapshot` and the `described` functions beside this module build.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from webapp.domain.access import Role, Scope
from webapp.domain.alerts import Alert, Unit
from webapp.domain.attempts import Outcome
from webapp.domain.callbacks import DeliveryState, EndpointState, ErrorClass
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Phase, Status
from webapp.domain.ids import ALPHABET, LENGTH
from webapp.domain.schedules import RunOutcome, StopReason
from webapp.domain.workers import Queue, WorkerState

Time = Annotated[datetime, Meta(tz=True, description="RFC 3339, UTC, with milliseconds.")]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def id_pattern(prefix: str) -> str:
    return f"^{prefix}_[{ALPHABET}]{{{LENGTH}}}$"


ExportId = Annotated[str, Meta(pattern=id_pattern("exp"))]
EventId = Annotated[str, Meta(pattern=id_pattern("evt"))]
EndpointId = Annotated[str, Meta(pattern=id_pattern("end"))]
DeliveryId = Annotated[str, Meta(pattern=id_pattern("dlv"))]
SavedOrderId = Annotated[str, Meta(pattern=id_pattern("sav"))]
TokenId = Annotated[str, Meta(pattern=id_pattern("tok"))]
WorkerId = Annotated[str, Meta(pattern=id_pattern("wrk"))]
UserId = Annotated[str, Meta(pattern=id_pattern("usr"))]
GroupId = Annotated[str, Meta(pattern=id_pattern("grp"))]
GrantId = Annotated[str, Meta(pattern=id_pattern("grt"))]
AuditId = Annotated[str, Meta(pattern=id_pattern("aud"))]
NextCursor = Annotated[str | None, Meta(description="Send it as `cursor` for the next page; null on the last one.")]
Headers = list[tuple[str, str]]


class FieldProblem(Struct):
    """One thing wrong with one field of the request."""

    field: str
    message: str


class Problem(Struct):
    """What went wrong (RFC 9457). `code` is stable and meant for programs, `detail` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET
    status_of_export: Status | UnsetType = UNSET
    export_id: ExportId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class DatasetLimits(Struct):
    """The most that one export of it may be; null where nothing is set."""

    rows: int | None
    bytes: int | None
    execution_seconds: int
    memory_mib: int | None


class Dataset(Struct):
    """What can be exported. `parameters` is the JSON Schema (2020-12) of an order's `params`."""

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    formats: list[str]
    limits: DatasetLimits


class DatasetPage(Struct):
    items: list[Dataset]
    next_cursor: NextCursor


class Choice(Struct):
    value: str
    label: str


class ChoicePage(Struct):
    items: list[Choice]
    next_cursor: NextCursor


class PreviewColumn(Struct):
    name: str
    kind: str


class Notice(Struct):
    """Something about the file to come that a person may want to know before ordering."""

    code: str
    message: str


class Preview(Struct):
    """The first rows, and what the whole file will probably come to."""

    columns: list[PreviewColumn]
    rows: list[list[Any]]
    truncated: bool
    rows_estimate: Count | None
    rows_estimate_is_exact: bool
    expected_bytes: Count | None
    expected_seconds: Seconds | None
    notices: list[Notice]


class File(Struct):
    """A finished file. `download_url` wants the same token as the API."""

    name: str
    size: Count
    rows: Count
    sha256: Sha256
    content_type: str
    expires_at: Time
    download_url: str


class ExportError(Struct):
    """Why it has no file; `retriable` when the cause may pass by itself."""

    code: ErrorCode
    message: str
    retriable: bool


class ExportWarning(Struct):
    """Something the format could not hold as it was, in `count` cells or columns."""

    code: str
    message: str
    count: Count


class Export(Struct):
    """One order. `progress` never goes back within an attempt, and is 100 only when the file can be downloaded.

    `queue_position` and `expected_start_at` are told while it waits, as far as past runs tell.
    """

    id: ExportId
    dataset: str
    params: dict[str, Any]
    format: str
    options: dict[str, Any]
    name: str
    note: str
    status: Status
    version: Annotated[int, Meta(ge=1)]
    attempt: Count
    progress: Annotated[int, Meta(ge=0, le=100)] | None
    phase: Phase | None
    rows_done: Count
    rows_total: Count | None
    bytes: Count
    eta_seconds: Count | None
    queue_position: Count | None
    queue_paused: bool | None
    expected_start_at: Time | None
    created_at: Time
    queued_at: Time | None
    started_at: Time | None
    completed_at: Time | None
    expired_at: Time | None
    cancelled_at: Time | None
    retry_at: Time | None
    file: File | None
    error: ExportError | None
    warnings: list[ExportWarning]
    owner: UserId


class OwnCallback(Struct):
    """The endpoint of an order's `callback_url`. `secret` is in this answer and in no other."""

    endpoint_id: EndpointId
    url: str
    secret: str


class OrderedExport(Export, kw_only=True):
    """The export that answers the order."""

    callback: OwnCallback | UnsetType = UNSET


class ExportPage(Struct):
    items: list[Export]
    next_cursor: NextCursor


class Share(Struct):
    """That a finished file is shared with the person of this name. `open`: they may open it now: they are let in, and
    may order the dataset."""

    user: str
    note: str
    shared_by: str | None
    created_at: Time
    seen_at: Time | None
    downloads: Count
    downloaded_at: Time | None
    open: bool


class SharePage(Struct):
    items: list[Share]
    next_cursor: NextCursor


class Attempt(Struct):
    """One try at executing an export. While it runs, `ended_at` and `outcome` are null."""

    number: Annotated[int, Meta(ge=1)]
    started_at: Time
    ended_at: Time | None
    outcome: Outcome | None
    error: ExportError | None
    rows: Count | None
    worker: str


class AttemptPage(Struct):
    items: list[Attempt]
    next_cursor: NextCursor


class Event(Struct):
    """Something that happened to an export, the same on every channel. `seq` orders events; `id` tells doubles."""

    id: EventId
    seq: Count
    type: str
    export_id: ExportId
    version: Annotated[int, Meta(ge=1)]
    timestamp: Time
    data: Export


class EventPage(Struct):
    items: list[Event]
    next_cursor: NextCursor


class Reminder(Struct):
    """The event that is told again, and how many deliveries of it are owed again."""

    type: str
    deliveries: Count


class SavedOrder(Struct):
    """An order that is kept under a name. A date among its `params` may be words that move with the day."""

    id: SavedOrderId
    name: str
    dataset: str
    params: dict[str, Any]
    format: str
    options: dict[str, Any]
    zone: str
    created_at: Time
    updated_at: Time
    ordered_at: Time | None
    export_id: ExportId | None
    owner: UserId


class SavedOrderPage(Struct):
    items: list[SavedOrder]
    next_cursor: NextCursor


class Schedule(Struct):
    """When a saved order is ordered by itself. `next` are its next dates: none while it is paused or has stopped."""

    cron: str
    zone: str
    next: list[Time]
    paused_at: Time | None
    stopped_at: Time | None
    stopped_reason: StopReason | None
    failures: int
    last_due_at: Time | None
    last_export_id: ExportId | None
    last_outcome: RunOutcome | None
    created_at: Time
    updated_at: Time


class Account(Struct):
    """Who it is that asks, and what this token or session is good for."""

    id: UserId
    name: str
    role: Role
    scopes: list[Scope]
    language: str | None
    timezone: str | None


class Token(Struct):
    """An API token, without the token itself."""

    id: TokenId
    name: str
    scopes: list[Scope]
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None


class CreatedToken(Token, kw_only=True):
    """`token` is in this answer and in no other."""

    token: str


class TokenPage(Struct):
    items: list[Token]
    next_cursor: NextCursor


class Membership(Struct):
    """A group that somebody is in."""

    id: GroupId
    name: str


class User(Struct):
    """Somebody who may sign in. `link_expires_at` is when their one-time link runs out, as long as it is good."""

    id: UserId
    name: str
    role: Role
    has_password: bool
    link_expires_at: Time | None
    groups: list[Membership]
    created_at: Time
    disabled_at: Time | None


class UserPage(Struct):
    items: list[User]
    next_cursor: NextCursor


class Invitation(Struct):
    """`link` lets this person in once, to choose a password; it is in this answer and in no other."""

    user: User
    link: str


class Group(Struct):
    """Some people under one name; `members` is how many."""

    id: GroupId
    name: str
    members: Count
    created_at: Time


class GroupPage(Struct):
    items: list[Group]
    next_cursor: NextCursor


class Grant(Struct):
    """A dataset granted to a person or to a group, whose name is `name`: one of the two ids is null."""

    id: GrantId
    dataset: str
    user_id: UserId | None
    group_id: GroupId | None
    name: str
    created_at: Time


class GrantPage(Struct):
    items: list[Grant]
    next_cursor: NextCursor


class DatasetAccess(Struct):
    """Who may use a dataset: of those whom its `roles` name, while it is `restricted`, holders of a grant alone; and
    admins."""

    dataset: str
    title: str
    roles: list[Role]
    restricted: bool
    grants: Count


class DatasetAccessPage(Struct):
    items: list[DatasetAccess]
    next_cursor: NextCursor


class AuditEntry(Struct):
    """What somebody did. `actor` is a person's name, or what acted by itself; `details` depend on `action`."""

    id: AuditId
    actor: str
    action: str
    subject: str
    details: dict[str, Any]
    timestamp: Time


class AuditPage(Struct):
    items: list[AuditEntry]
    next_cursor: NextCursor


class Endpoint(Struct):
    """Where callbacks are sent. Values of headers and all secrets are left out; empty lists mean every one."""

    id: EndpointId
    url: str
    description: str
    event_types: list[str]
    datasets: list[str]
    schedule: str | list[Seconds]
    time_limit: Seconds
    max_in_flight: Count
    rate: Count
    headers: dict[str, str]
    encrypted: bool
    export_id: ExportId | None
    state: EndpointState
    disabled_reason: str | None
    disables_at: Time | None
    failures_in_row: Count
    failing_since: Time | None
    last_success_at: Time | None
    last_failure_at: Time | None
    created_at: Time
    updated_at: Time
    notes: list[str]


class ChangedEndpoint(Endpoint, kw_only=True):
    """`encryption_key` is there once, when a new one was asked for."""

    encryption_key: str | UnsetType = UNSET


class CreatedEndpoint(ChangedEndpoint, kw_only=True):
    """`secret` is in this answer and in no other."""

    secret: str


class RotatedEndpoint(Endpoint, kw_only=True):
    """`secret` is the new one, in this answer and in no other; the old ones go on signing until they end."""

    secret: str
    old_secrets_end_at: list[Time | None]


class EndpointPage(Struct):
    items: list[Endpoint]
    next_cursor: NextCursor


class Counted(Struct):
    """How many deliveries are, or would be, owed anew."""

    count: Count


class Hosts(Struct):
    """The hosts that an order's `callback_url` may name."""

    hosts: list[str]


class Worker(Struct):
    """One worker process. `slots` is 0 for one that executes no exports; `memory` is in bytes."""

    id: WorkerId
    state: WorkerState
    queues: list[Queue]
    host: str
    pid: int
    version: str
    started_at: Time
    heartbeat_at: Time
    slots: Count
    slots_taken: Count
    sending: Count
    memory: Count
    exports: list[ExportId]
    drain_until: Time | None
    ended_at: Time | None


class WorkerPage(Struct):
    items: list[Worker]
    next_cursor: NextCursor


class QueueState(Struct):
    """Whether anything new of a queue is started; who paused it is named."""

    name: Queue
    paused: bool
    paused_at: Time | None
    paused_by: str | None


class QueuePage(Struct):
    items: list[QueueState]
    next_cursor: NextCursor


class SentRequest(Struct):
    """As it was sent, but for the values of custom headers."""

    url: str
    headers: Headers
    body: str


class ReceivedAnswer(Struct):
    """What the receiver answered; `is_cut` when its body was longer than is kept."""

    status: int
    headers: Headers
    body: str
    is_cut: bool


class Trial(Struct):
    """One signed sample and what came of it. `error` null is success."""

    succeeded: bool
    error: ErrorClass | None
    message: str | None
    at: Time
    seconds: Seconds
    request: SentRequest
    response: ReceivedAnswer | None


class Delivery(Struct):
    """One event owed to one endpoint. `attempts` counts all its requests, `failures` those since it was owed last.

    An alert's has no `export_id`. `last_error` is UNREACHABLE, for who is no admin, wherever it would tell of the
    desk's own network.
    """

    id: DeliveryId
    event_id: EventId
    type: str
    export_id: ExportId | None
    endpoint_id: EndpointId
    status: DeliveryState
    attempts: Count
    failures: Count
    created_at: Time
    next_attempt_at: Time | None
    last_attempt_at: Time | None
    completed_at: Time | None
    last_status: int | None
    last_error: str | None
    message: str | None


class DeliveryAttempt(Struct):
    """One request of a delivery. While it is under way, `finished_at` is null."""

    number: Annotated[int, Meta(ge=1)]
    started_at: Time
    finished_at: Time | None
    seconds: Seconds | None
    error: ErrorClass | None
    message: str | None
    request: SentRequest
    response: ReceivedAnswer | None


class LoggedDelivery(Delivery, kw_only=True):
    """With its attempts, oldest first."""

    attempt_log: list[DeliveryAttempt]


class DeliveryPage(Struct):
    items: list[Delivery]
    next_cursor: NextCursor


class AlertState(Struct):
    """What is watched over. `value` and `threshold` are in `unit`; null is nothing to measure, or no limit."""

    alert: Alert
    state: Literal["firing", "resolved"]
    title: str
    summary: str
    value: float | None
    threshold: float | None
    unit: Unit
    firing_since: Time | None
    resolved_at: Time | None
    url: str


class Callback(Struct):
    """The body of a callback. `data` is the export as it was at the event; for an endpoint with encryption, a compact
    JWE of it (`dir`, `A256GCM`)."""

    type: str
    timestamp: Time
    data: Export | str


class AlertCallback(Struct):
    """The body of a callback that tells of an alert; `data` may be encrypted as well."""

    type: str
    timestamp: Time
    data: AlertState | str
