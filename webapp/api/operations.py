"""Every call of the API: what it takes, what it answers, and with which codes it refuses. The OpenAPI document and the
reference are made of this table; a test holds it against the routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webapp.actions.audit_log import KINDS
from webapp.actions.callback_hosts import MOST_HOSTS
from webapp.actions.people import USER_NAME
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
from webapp.api.answers import id_pattern
from webapp.domain import limits
from webapp.domain.access import Role, Scope
from webapp.domain.callbacks import CALLBACK_TYPES, DeliveryState, ErrorClass
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Status
from webapp.domain.shares import MOST_SHARES, SHARES_AN_HOUR
from webapp.domain.workers import Queue
from webapp.web.context import needed_scope


@dataclass(frozen=True, slots=True)
class Parameter:
    """`place`: `query` or `header`. `schema` is JSON Schema."""

    name: str
    place: str
    schema: Mapping[str, Any]
    description: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """`kind` None has no body. `headers` name components of the document; those with a `?` are not always there."""

    status: int
    description: str
    kind: type | None = None
    headers: tuple[str, ...] = ()
    media: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Bodies that are no JSON, by media type."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`problems` are the codes of its own; those of every call are added, see `codes`."""

    method: str
    path: str
    name: str
    tag: str
    summary: str
    replies: tuple[Reply, ...]
    problems: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: type | None = None
    required: tuple[str, ...] = ()
    """Members that this call wants of its body, beside those that its type does."""
    description: str = ""
    is_open: bool = False
    for_admins: bool = False

    @property
    def scope(self) -> Scope | None:
        """What a token has to be good for."""
        return None if self.is_open else needed_scope(self.method, f"/api/v1{self.path}")

    @property
    def codes(self) -> Sequence[str]:
        """Every code of its problem documents, each once."""
        every = ["INTERNAL", "UNAVAILABLE"]
        every += [] if self.is_open else ["SIGN_IN_NEEDED", "SCOPE_NEEDED"]
        every += ["FORBIDDEN"] if self.for_admins else []
        every += ["CROSS_SITE", "TOO_LARGE"] if self.method != "GET" else []
        every += ["BAD_JSON", "UNSUPPORTED_MEDIA_TYPE", "INVALID"] if self.body else []
        every += ["INVALID"] if any(parameter.place == "query" for parameter in self.parameters) else []
        every += ["NOT_FOUND"] if "{" in self.path else []
        return list(dict.fromkeys([*every, *self.problems]))


@dataclass(frozen=True, slots=True)
class Link:
    """Where to go on from an answer: these calls take what is at `pointer` of its body as this parameter."""

    status: int
    pointer: str
    parameter: str
    calls: tuple[str, ...]


OF_EXPORT = (
    "getExport", "annotateExport", "cancelExport", "retryExport", "listAttempts", "listShares", "downloadFile",
    "listExportEvents", "remind", "deleteExport",
)  # fmt: skip
OF_ENDPOINT = (
    "getEndpoint", "editEndpoint", "tryOwnEndpoint", "rotateSecret", "countRecoverable", "recover", "pauseEndpoint",
    "resumeEndpoint", "deleteEndpoint",
)  # fmt: skip
OF_SAVED_ORDER = (
    "getSavedOrder", "editSavedOrder", "orderAgain", "putSchedule", "getSchedule", "pauseSchedule", "resumeSchedule",
    "deleteSchedule", "deleteSavedOrder", "restoreSavedOrder",
)  # fmt: skip
OF_USER = ("getUser", "changeUser", "resetUser", "disableUser", "enableUser", "addMember", "removeMember", "deleteUser")
OF_GROUP = ("getGroup", "renameGroup", "listMembers", "deleteGroup")
LINKS: Mapping[str, tuple[Link, ...]] = {
    "listDatasets": (Link(200, "/items/0/name", "name", ("getDataset", "previewDataset")),),
    "orderExport": (Link(202, "/id", "export_id", OF_EXPORT), Link(200, "/id", "export_id", OF_EXPORT)),
    "listExports": (Link(200, "/items/0/id", "export_id", OF_EXPORT),),
    "createEndpoint": (
        Link(201, "/id", "endpoint_id", OF_ENDPOINT),
        Link(201, "/id", "endpoint", ("listDeliveries",)),
    ),
    "listEndpoints": (Link(200, "/items/0/id", "endpoint_id", OF_ENDPOINT),),
    "saveOrder": (Link(201, "/id", "saved_order_id", OF_SAVED_ORDER),),
    "createToken": (Link(201, "/id", "token_id", ("getToken", "revokeToken")),),
    "inviteUser": (Link(201, "/user/id", "user_id", OF_USER),),
    "createGroup": (Link(201, "/id", "group_id", OF_GROUP),),
    "grantDataset": (Link(201, "/id", "grant_id", ("getGrant", "withdrawGrant")),),
    "listDeliveries": (Link(200, "/items/0/id", "delivery_id", ("getDelivery", "redeliver")),),
}
"""By the name of an operation."""

TAGS: Mapping[str, str] = {
    "Datasets": "What can be exported.",
    "Exports": "Order, follow, fetch and delete.",
    "Saved orders": "Orders kept under a name, to be ordered again.",
    "Events": "The same facts on every channel, under the same ids.",
    "Callbacks": "Endpoints that events are sent to. For admins.",
    "Deliveries": "What was sent to endpoints, and what came of it.",
    "Users": "People, their roles and links. For admins.",
    "Groups": "Groups, and who is in them. For admins.",
    "Grants": "To whom datasets are granted. For admins.",
    "Audit": "Who did what. For admins.",
    "Workers": "Who works, and what is held back. For admins.",
    "Account": "Oneself, and one's tokens.",
    "Contract": "This document.",
}

PATH_PARAMETERS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "export_id": ({"type": "string", "pattern": id_pattern("exp")}, "The id of an export."),
    "endpoint_id": ({"type": "string", "pattern": id_pattern("end")}, "The id of an endpoint."),
    "delivery_id": ({"type": "string", "pattern": id_pattern("dlv")}, "The id of a delivery."),
    "saved_order_id": ({"type": "string", "pattern": id_pattern("sav")}, "The id of a saved order."),
    "worker_id": ({"type": "string", "pattern": id_pattern("wrk")}, "The id of a worker."),
    "queue": ({"type": "string", "enum": list(Queue)}, "The name of a queue."),
    "token_id": ({"type": "string", "pattern": id_pattern("tok")}, "The id of a token."),
    "user_id": ({"type": "string", "pattern": id_pattern("usr")}, "The id of a user."),
    "group_id": ({"type": "string", "pattern": id_pattern("grp")}, "The id of a group."),
    "grant_id": ({"type": "string", "pattern": id_pattern("grt")}, "The id of a grant."),
    "person": ({"type": "string", "minLength": 1}, "The name of a user."),
    "name": ({"type": "string", "minLength": 1}, "The name of a dataset."),
    "parameter": ({"type": "string", "minLength": 1}, "The name of one of its parameters."),
}


def query(name: str, schema: Mapping[str, Any], description: str, *, is_required: bool = False) -> Parameter:
    return Parameter(name, "query", schema, description, is_required)


def several(names: Sequence[str]) -> Mapping[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(names)}}


TEXT = {"type": "string", "maxLength": limits.QUERY_TEXT_LENGTH, "pattern": r"^[^\x00]*$"}
MOMENT = {"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]}
MOMENT_OR_NONE = {"type": "string", "anyOf": [*MOMENT["anyOf"], {"maxLength": 0}]}
LIMIT = query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": limits.MAX_PAGE_SIZE, "default": limits.PAGE_SIZE},
    "The most items of the page.",
)
SINCE = query("since", MOMENT_OR_NONE, "From this time on: a date, or an RFC 3339 time; without a zone it is UTC.")
ALL = query("all", {"type": "string", "enum": ["0", "1"], "default": "0"}, "1: everybody's, for an admin.")
SHARED = query(
    "shared", {"type": "string", "enum": ["0", "1"], "default": "0"}, "1: what others have shared with you, instead."
)
AFTER = query(
    "after",
    {"type": "string", "pattern": f"^({id_pattern('evt')[1:-1]}|[0-9]{{1,18}})?$"},
    "The id of the last event that you know. Some of those just before it may come again.",
)


def cursor(prefix: str) -> Parameter:
    """Of a list whose items have such ids."""
    pattern = f"^([0-9]{{1,14}}-{id_pattern(prefix)[1:-1]})?$"
    return query("cursor", {"type": "string", "pattern": pattern}, "The `next_cursor` of the page before, unchanged.")


NAME_CURSOR = query(
    "cursor",
    {"type": "string", "pattern": f"^({USER_NAME.pattern})?$"},
    "The `next_cursor` of the page before, unchanged.",
)
EVENT_CURSOR = query("cursor", AFTER.schema, "The `next_cursor` of the page before, unchanged.")
LAST_EVENT_ID = Parameter("Last-Event-ID", "header", {"type": "string"}, "For a stream: as `after`, and before it.")
IF_NONE_MATCH = Parameter(
    "If-None-Match", "header", {"type": "string"}, "The `ETag` that you know: 304 as long as it still holds."
)
KEY = Parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "Of your own making: under one key there is only ever one export, for a day.",
)
RANGE = Parameter("Range", "header", {"type": "string"}, "Parts of the file, as in `bytes=1000-`.")
IF_RANGE = Parameter("If-Range", "header", {"type": "string"}, "The `ETag` of the part you have; else it all comes.")
WAIT = query(
    "wait",
    {"type": "string", "pattern": r"^[0-9]{1,4}(\.[0-9]{1,3})?$"},
    f"Seconds to wait for a change before it is answered; {limits.LONG_POLL_SECONDS:g} at most.",
)

STREAM = {"text/event-stream": {"type": "string", "description": "Asked for by `Accept`; see the guide."}}
FILE_HEADERS = ("ETag", "Repr-Digest", "Content-Disposition")
FILE = {"*/*": {"type": "string", "contentMediaType": "application/octet-stream"}}
PARTLY = {**FILE, "multipart/byteranges": FILE["*/*"]}
TOLD = Reply(200, "The export.", answers.Export, ("ETag", "Retry-After?"))
ACTED = Reply(202, "The export, in its new status.", answers.Export, ("ETag", "Location", "Retry-After?"))
PLACED = (
    Reply(202, "A new export.", answers.OrderedExport, ("ETag", "Location", "Retry-After?")),
    Reply(
        200,
        "The export that already answers this order.",
        answers.OrderedExport,
        ("ETag", "Location", "Retry-After?"),
    ),
)
GONE = Reply(204, "Done; there is nothing more to say.")
OWED = Reply(202, "How many are owed anew.", answers.Counted)
EXPORT, SAVED_ORDER = "/exports/{export_id}", "/saved-orders/{saved_order_id}"
ENDPOINT, DELIVERY = "/callbacks/{endpoint_id}", "/deliveries/{delivery_id}"
USER, GROUP = "/users/{user_id}", "/groups/{group_id}"
AUDIT_CSV = {"text/csv": {"type": "string", "description": "Asked for by `Accept`, or by `format`."}}
SEALED = ("KEY_MISSING",)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", "/datasets", "listDatasets", "Datasets", "What you may order",
        (Reply(200, "All of them, on one page.", answers.DatasetPage),),
    ),
    Operation(
        "GET", "/datasets/{name}", "getDataset", "Datasets", "One dataset and its parameters",
        (Reply(200, "The dataset.", answers.Dataset),),
    ),
    Operation(
        "GET", "/datasets/{name}/choices/{parameter}", "listChoices", "Datasets", "What a parameter may be now",
        (Reply(200, "The best fits first.", answers.ChoicePage),),
        tuple(ErrorCode),
        (query("q", TEXT, "What the person has typed."), LIMIT),
    ),
    Operation(
        "POST", "/datasets/{name}/preview", "previewDataset", "Datasets", "The first rows, and what to expect",
        (Reply(200, "Rows, estimates, and what may surprise.", answers.Preview),),
        tuple(ErrorCode),
        body=requests.PreviewBody,
    ),
    Operation(
        "GET", "/exports", "listExports", "Exports", "Your exports, newest first",
        (Reply(200, "One page.", answers.ExportPage),),
        parameters=(
            query("status", several(list(Status)), "Of these statuses; several by commas, or several times."),
            query("dataset", TEXT, "Of this dataset."),
            query("format", TEXT, "Of this format."),
            query(
                "q", TEXT,
                "With this in its id, name, note, parameters or its dataset's name. 500 exports are searched at a "
                "time: a page may have few items, or none, and not be the last one.",
            ),
            SINCE, ALL, SHARED, LIMIT, cursor("exp"),
        ),
    ),
    Operation(
        "POST", "/exports", "orderExport", "Exports", "Order an export",
        PLACED,
        ("QUOTA_EXCEEDED", "IDEMPOTENCY_KEY_REUSED"),
        (KEY,),
        requests.OrderBody,
    ),
    Operation(
        "GET", EXPORT, "getExport", "Exports", "One export",
        (TOLD, Reply(304, "It is still as you know it.", headers=("ETag", "Retry-After?"))),
        parameters=(WAIT, IF_NONE_MATCH),
        description="While it is active, `Retry-After` says when to ask again. Ask with `wait` and be told sooner.",
    ),
    Operation(
        "PATCH", EXPORT, "annotateExport", "Exports", "Give it a name or a note",
        (Reply(200, "The export.", answers.Export, ("ETag", "Retry-After?")),),
        body=requests.AnnotationBody,
    ),
    Operation(
        "DELETE", EXPORT, "deleteExport", "Exports", "Delete an export and its file",
        (GONE,),
        ("ILLEGAL_TRANSITION",),
    ),
    Operation(
        "POST", EXPORT + "/cancellation", "cancelExport", "Exports", "Cancel",
        (ACTED,),
        ("ILLEGAL_TRANSITION",),
    ),
    Operation(
        "POST", EXPORT + "/retry", "retryExport", "Exports", "Try again what failed or took too long",
        (ACTED,),
        ("ILLEGAL_TRANSITION", "ALREADY_ACTIVE", "QUOTA_EXCEEDED"),
    ),
    Operation(
        "GET", EXPORT + "/shares", "listShares", "Exports", "With whom it is shared",
        (Reply(200, "By name, on one page.", answers.SharePage),),
    ),
    Operation(
        "PUT", EXPORT + "/shares/{person}", "share", "Exports", "Share the finished file, or change the note",
        (
            Reply(201, "It is shared with them now.", answers.Share),
            Reply(200, "It was already; this is the note now.", answers.Share),
        ),
        ("NOT_READY", "TOO_MANY_TRIES"),
        body=shares.ShareBody,
        description=f"With somebody who may order its dataset: to look at and to download, as long as that and the "
        f"file last. At most {MOST_SHARES} people, and {SHARES_AN_HOUR} shares of one person an hour.",
    ),
    Operation(
        "DELETE", EXPORT + "/shares/{person}", "withdrawShare", "Exports", "Share it with them no more",
        (GONE,),
    ),
    Operation(
        "GET", EXPORT + "/attempts", "listAttempts", "Exports", "Every try at executing it",
        (Reply(200, "Oldest first, on one page.", answers.AttemptPage),),
    ),
    Operation(
        "GET", EXPORT + "/file", "downloadFile", "Exports", "The finished file",
        (
            Reply(200, "All of it.", headers=(*FILE_HEADERS, "Accept-Ranges"), media=FILE),
            Reply(206, "The parts that were asked for.", headers=("Content-Range?", *FILE_HEADERS), media=PARTLY),
            Reply(302, "A fresh link into the bucket, which wants no token.", headers=("Location",)),
            Reply(304, "It is the file that you know.", headers=FILE_HEADERS),
        ),
        ("NOT_READY", "GONE", "REQUESTED_RANGE_NOT_SATISFIABLE"),
        (RANGE, IF_RANGE, IF_NONE_MATCH),
    ),
    Operation(
        "GET", EXPORT + "/events", "listExportEvents", "Events", "The events of one export",
        (Reply(200, "One page, or a stream that ends with the export.", answers.EventPage, media=STREAM),),
        parameters=(AFTER, EVENT_CURSOR, LIMIT, LAST_EVENT_ID),
    ),
    Operation(
        "POST", EXPORT + "/reminder", "remind", "Events", "Tell the newest event again",
        (Reply(202, "What is told again.", answers.Reminder),),
        ("GONE",),
        body=acks.ReminderBody,
    ),
    Operation(
        "GET", "/saved-orders", "listSavedOrders", "Saved orders", "All of your own, by name",
        (Reply(200, "All of them, on one page.", answers.SavedOrderPage),),
    ),
    Operation(
        "POST", "/saved-orders", "saveOrder", "Saved orders", "Keep an order under a name",
        (Reply(201, "The saved order.", answers.SavedOrder, ("Location",)),),
        body=saved_orders.SavedOrderBody,
    ),
    Operation(
        "GET", SAVED_ORDER, "getSavedOrder", "Saved orders", "One saved order",
        (Reply(200, "The saved order.", answers.SavedOrder),),
    ),
    Operation(
        "PATCH", SAVED_ORDER, "editSavedOrder", "Saved orders", "Change what is given",
        (Reply(200, "The saved order.", answers.SavedOrder),),
        body=saved_orders.SavedOrderChange,
    ),
    Operation(
        "DELETE", SAVED_ORDER, "deleteSavedOrder", "Saved orders", "Delete it",
        (GONE,),
        description="It can be restored for a day.",
    ),
    Operation(
        "POST", SAVED_ORDER + "/restoration", "restoreSavedOrder", "Saved orders", "Take a deletion back",
        (Reply(200, "The saved order.", answers.SavedOrder),),
        ("INVALID",),
    ),
    Operation(
        "GET", SAVED_ORDER + "/schedule", "getSchedule", "Saved orders", "When it is ordered by itself",
        (Reply(200, "The schedule.", answers.Schedule),),
    ),
    Operation(
        "PUT", SAVED_ORDER + "/schedule", "putSchedule", "Saved orders", "Have it ordered by itself",
        (Reply(200, "The schedule.", answers.Schedule),),
        description="In the place of the schedule it had. `cron` has five fields: `30 8 * * 1` is Mondays at half past "
        "eight in the time zone `zone`, at most every 15 minutes.",
        body=schedules.ScheduleBody,
    ),
    Operation(
        "DELETE", SAVED_ORDER + "/schedule", "deleteSchedule", "Saved orders", "No longer order it by itself",
        (GONE,),
    ),
    Operation(
        "POST", SAVED_ORDER + "/schedule/pause", "pauseSchedule", "Saved orders", "Pause its schedule",
        (Reply(200, "The schedule.", answers.Schedule),),
    ),
    Operation(
        "POST", SAVED_ORDER + "/schedule/resumption", "resumeSchedule", "Saved orders", "Resume its schedule",
        (Reply(200, "The schedule.", answers.Schedule),),
    ),
    Operation(
        "POST", SAVED_ORDER + "/exports", "orderAgain", "Saved orders", "Order it again, as of today",
        PLACED,
        ("INVALID", "QUOTA_EXCEEDED", "IDEMPOTENCY_KEY_REUSED"),
        (KEY,),
    ),
    Operation(
        "GET", "/events", "listEvents", "Events", "The events of all your exports",
        (Reply(200, "One page, or a stream without an end.", answers.EventPage, media=STREAM),),
        parameters=(AFTER, EVENT_CURSOR, ALL, LIMIT, LAST_EVENT_ID),
    ),
    Operation(
        "POST", "/acknowledgements", "acknowledge", "Events", "Say what arrived",
        (GONE,),
        body=acks.AcknowledgementBody,
    ),
    Operation(
        "GET", "/ws", "openSocket", "Events", "The events over a WebSocket",
        (Reply(101, "A WebSocket; what is said on it is in the guide."),),
        ("UPGRADE_REQUIRED", "CROSS_SITE"),
    ),
    Operation(
        "GET", "/callbacks", "listEndpoints", "Callbacks", "All endpoints, newest first",
        (Reply(200, "All of them, on one page.", answers.EndpointPage),),
        SEALED,
        (query("export", TEXT, "Those that were ordered with this export."),),
        for_admins=True,
    ),
    Operation(
        "POST", "/callbacks", "createEndpoint", "Callbacks", "Register an endpoint",
        (Reply(201, "The endpoint and, this once, its secret.", answers.CreatedEndpoint, ("Location",)),),
        body=callbacks.EndpointBody,
        required=("url",),
        for_admins=True,
    ),
    Operation(
        "GET", "/callbacks/hosts", "listHosts", "Callbacks", "Hosts that a `callback_url` may name",
        (Reply(200, "The hosts.", answers.Hosts),),
        for_admins=True,
    ),
    Operation(
        "PUT", "/callbacks/hosts", "setHosts", "Callbacks", "Set these hosts",
        (Reply(200, "The hosts, as they are kept.", answers.Hosts),),
        body=callbacks.HostsBody,
        description=f"At most {MOST_HOSTS}.",
        for_admins=True,
    ),
    Operation(
        "POST", "/callbacks/test", "tryEndpoint", "Callbacks", "Try settings that are not saved",
        (Reply(200, "What came of it.", answers.Trial),),
        ("NO_WORKER", *SEALED),
        body=callbacks.UnsavedTrialBody,
        required=("url",),
        for_admins=True,
    ),
    Operation(
        "GET", ENDPOINT, "getEndpoint", "Callbacks", "One endpoint",
        (Reply(200, "The endpoint.", answers.Endpoint),),
        SEALED,
        for_admins=True,
    ),
    Operation(
        "PATCH", ENDPOINT, "editEndpoint", "Callbacks", "Change what is given",
        (Reply(200, "The endpoint.", answers.ChangedEndpoint),),
        SEALED,
        body=callbacks.EndpointBody,
        for_admins=True,
    ),
    Operation(
        "DELETE", ENDPOINT, "deleteEndpoint", "Callbacks", "Delete an endpoint",
        (GONE,),
        SEALED,
        for_admins=True,
    ),
    Operation(
        "POST", ENDPOINT + "/test", "tryOwnEndpoint", "Callbacks", "Send a signed sample now",
        (Reply(200, "What came of it.", answers.Trial),),
        ("NO_WORKER", *SEALED),
        body=callbacks.TrialBody,
        for_admins=True,
    ),
    Operation(
        "POST", ENDPOINT + "/rotation", "rotateSecret", "Callbacks", "A new secret",
        (Reply(200, "The endpoint and, this once, its new secret.", answers.RotatedEndpoint),),
        SEALED,
        body=callbacks.RotationBody,
        for_admins=True,
    ),
    Operation(
        "GET", ENDPOINT + "/recovery", "countRecoverable", "Callbacks", "How many a recovery would send",
        (Reply(200, "How many.", answers.Counted),),
        SEALED,
        (query("since", MOMENT, SINCE.description, is_required=True),),
        for_admins=True,
    ),
    Operation(
        "POST", ENDPOINT + "/recovery", "recover", "Callbacks", "Send everything that was given up",
        (OWED,),
        SEALED,
        body=callbacks.RecoveryBody,
        for_admins=True,
    ),
    Operation(
        "POST", ENDPOINT + "/pause", "pauseEndpoint", "Callbacks", "Hold its deliveries back",
        (Reply(200, "The endpoint.", answers.Endpoint),),
        SEALED,
        for_admins=True,
    ),
    Operation(
        "POST", ENDPOINT + "/resumption", "resumeEndpoint", "Callbacks", "Send them again",
        (Reply(200, "The endpoint.", answers.Endpoint),),
        SEALED,
        for_admins=True,
    ),
    Operation(
        "GET", "/deliveries", "listDeliveries", "Deliveries", "The log, newest first",
        (Reply(200, "One page.", answers.DeliveryPage),),
        ("FORBIDDEN", "NOT_FOUND"),
        (
            query("endpoint", TEXT, "To this endpoint."),
            query("status", several(list(DeliveryState)), "In these states; several by commas, or several times."),
            query("export", TEXT, "Of this export. Who is no admin has to name one of their own."),
            query("type", several(CALLBACK_TYPES), "Of these events."),
            query("error", {"type": "string", "enum": list(ErrorClass)}, "Whose last try failed so; for admins."),
            SINCE, LIMIT, cursor("dlv"),
        ),
    ),
    Operation(
        "GET", DELIVERY, "getDelivery", "Deliveries", "One delivery and its attempts",
        (Reply(200, "The delivery.", answers.LoggedDelivery),),
        for_admins=True,
    ),
    Operation(
        "POST", DELIVERY + "/redelivery", "redeliver", "Deliveries", "Send it again",
        (Reply(202, "The delivery.", answers.Delivery),),
        ("DELIVERY_CANCELLED",),
        for_admins=True,
    ),
    Operation(
        "POST", "/deliveries/redelivery", "redeliverMatching", "Deliveries", "Send all again that match",
        (OWED,),
        body=deliveries.RedeliveryBody,
        for_admins=True,
    ),
    Operation(
        "GET", "/account", "getAccount", "Account", "Who asks, and what for",
        (Reply(200, "The person behind the token or session.", answers.Account),),
    ),
    Operation(
        "GET", "/tokens", "listTokens", "Account", "Your API tokens, oldest first",
        (Reply(200, "All of them, on one page; also those that have ended.", answers.TokenPage),),
    ),
    Operation(
        "POST", "/tokens", "createToken", "Account", "Make a token",
        (Reply(201, "Its description and, this once, the token.", answers.CreatedToken, ("Location",)),),
        body=tokens.TokenBody,
    ),
    Operation(
        "GET", "/tokens/{token_id}", "getToken", "Account", "One token",
        (Reply(200, "The token.", answers.Token),),
    ),
    Operation(
        "DELETE", "/tokens/{token_id}", "revokeToken", "Account", "Revoke a token",
        (GONE,),
    ),
    Operation(
        "GET", "/users", "listUsers", "Users", "People, by name",
        (Reply(200, "One page.", answers.UserPage),),
        parameters=(
            query("q", TEXT, "With this in their name, whatever its case."),
            query("role", {"type": "string", "enum": list(Role)}, "With this role."),
            query("group", TEXT, "In the group with this id."),
            LIMIT, NAME_CURSOR,
        ),
        for_admins=True,
    ),
    Operation(
        "POST", "/users", "inviteUser", "Users", "Invite somebody",
        (Reply(201, "The person and, this once, the link that lets them in.", answers.Invitation, ("Location",)),),
        body=users.InvitationBody,
        for_admins=True,
    ),
    Operation(
        "GET", USER, "getUser", "Users", "One person",
        (Reply(200, "The person.", answers.User),),
        for_admins=True,
    ),
    Operation(
        "PATCH", USER, "changeUser", "Users", "Change their role",
        (Reply(200, "The person.", answers.User),),
        ("LAST_ADMIN",),
        body=users.UserChange,
        for_admins=True,
    ),
    Operation(
        "POST", USER + "/reset", "resetUser", "Users", "End their password and sessions, for a new link",
        (Reply(200, "The person and, this once, the link that lets them in.", answers.Invitation),),
        for_admins=True,
    ),
    Operation(
        "POST", USER + "/disabling", "disableUser", "Users", "Switch off: no sessions, no tokens",
        (Reply(200, "The person.", answers.User),),
        ("LAST_ADMIN",),
        for_admins=True,
    ),
    Operation(
        "POST", USER + "/enabling", "enableUser", "Users", "Let in again",
        (Reply(200, "The person.", answers.User),),
        for_admins=True,
    ),
    Operation(
        "DELETE", USER, "deleteUser", "Users", "Delete with exports, files and tokens",
        (GONE,),
        ("LAST_ADMIN",),
        for_admins=True,
    ),
    Operation(
        "GET", "/groups", "listGroups", "Groups", "All groups, by name",
        (Reply(200, "All of them, on one page.", answers.GroupPage),),
        for_admins=True,
    ),
    Operation(
        "POST", "/groups", "createGroup", "Groups", "Make a group",
        (Reply(201, "The group.", answers.Group, ("Location",)),),
        body=groups.GroupBody,
        for_admins=True,
    ),
    Operation(
        "GET", GROUP, "getGroup", "Groups", "One group",
        (Reply(200, "The group.", answers.Group),),
        for_admins=True,
    ),
    Operation(
        "PATCH", GROUP, "renameGroup", "Groups", "Rename it",
        (Reply(200, "The group.", answers.Group),),
        body=groups.GroupBody,
        for_admins=True,
    ),
    Operation(
        "DELETE", GROUP, "deleteGroup", "Groups", "Delete it, with what was granted to it",
        (GONE,),
        for_admins=True,
    ),
    Operation(
        "GET", GROUP + "/members", "listMembers", "Groups", "Who is in it, by name",
        (Reply(200, "One page.", answers.UserPage),),
        parameters=(LIMIT, NAME_CURSOR),
        for_admins=True,
    ),
    Operation(
        "PUT", GROUP + "/members/{user_id}", "addMember", "Groups", "Put somebody in",
        (GONE,),
        for_admins=True,
    ),
    Operation(
        "DELETE", GROUP + "/members/{user_id}", "removeMember", "Groups", "Take somebody out",
        (GONE,),
        for_admins=True,
    ),
    Operation(
        "GET", "/grants", "listGrants", "Grants", "What is granted to whom, newest first",
        (Reply(200, "One page.", answers.GrantPage),),
        parameters=(
            query("dataset", TEXT, "Of this dataset."),
            query("user", TEXT, "To the person with this id, themselves."),
            query("group", TEXT, "To the group with this id."),
            LIMIT, cursor("grt"),
        ),
        for_admins=True,
    ),
    Operation(
        "POST", "/grants", "grantDataset", "Grants", "Grant a dataset",
        (
            Reply(201, "The grant.", answers.Grant, ("Location",)),
            Reply(200, "The grant that there is already.", answers.Grant, ("Location",)),
        ),
        description="To a person or to a group. From the first grant on, the dataset is for holders of one alone, and "
        "for admins.",
        body=grants.GrantBody,
        for_admins=True,
    ),
    Operation(
        "GET", "/grants/{grant_id}", "getGrant", "Grants", "One grant",
        (Reply(200, "The grant.", answers.Grant),),
        for_admins=True,
    ),
    Operation(
        "DELETE", "/grants/{grant_id}", "withdrawGrant", "Grants", "Withdraw it",
        (GONE,),
        description="The dataset stays restricted, also when this was its last grant.",
        for_admins=True,
    ),
    Operation(
        "GET", "/grants/datasets", "listAccess", "Grants", "Which datasets are restricted",
        (Reply(200, "All of them, on one page.", answers.DatasetAccessPage),),
        for_admins=True,
    ),
    Operation(
        "GET", "/grants/datasets/{name}", "getAccess", "Grants", "Whether one dataset is restricted",
        (Reply(200, "Who may use it.", answers.DatasetAccess),),
        for_admins=True,
    ),
    Operation(
        "POST", "/grants/datasets/{name}/opening", "openDataset", "Grants", "Withdraw all, and let its roles decide",
        (Reply(200, "Who may use it.", answers.DatasetAccess),),
        for_admins=True,
    ),
    Operation(
        "GET", "/audit", "listAudit", "Audit", "Who did what, newest first",
        (Reply(200, "One page; as CSV all that match.", answers.AuditPage, ("Content-Disposition?",), AUDIT_CSV),),
        parameters=(
            query("actor", TEXT, "Done by this one."),
            query("kind", {"type": "string", "enum": list(KINDS)}, "Done to things of this kind."),
            query("subject", TEXT, "Done to this one."),
            SINCE,
            query("until", MOMENT_OR_NONE, "Before this time."),
            query("format", {"type": "string", "enum": list(audit.FORMATS)}, "As `Accept: text/csv`, and before it."),
            LIMIT, cursor("aud"),
        ),
        for_admins=True,
    ),
    Operation(
        "GET", "/workers", "listWorkers", "Workers", "Workers of the last hour",
        (Reply(200, "Newest first, those that ended last; on one page.", answers.WorkerPage),),
        for_admins=True,
    ),
    Operation(
        "GET", "/workers/{worker_id}", "getWorker", "Workers", "One worker",
        (Reply(200, "The worker.", answers.Worker),),
        for_admins=True,
    ),
    Operation(
        "POST", "/workers/{worker_id}/drain", "drainWorker", "Workers", "Let it finish, and end",
        (Reply(202, "The worker; it takes nothing new.", answers.Worker),),
        ("WORKER_GONE",),
        body=workers.DrainBody,
        for_admins=True,
    ),
    Operation(
        "POST", "/workers/{worker_id}/drain/cancellation", "keepWorker", "Workers", "Let it go on after all",
        (Reply(200, "The worker.", answers.Worker),),
        ("WORKER_GONE",),
        for_admins=True,
    ),
    Operation(
        "GET", "/queues", "listQueues", "Workers", "Which queues are paused",
        (Reply(200, "All of them, on one page.", answers.QueuePage),),
        for_admins=True,
    ),
    Operation(
        "POST", "/queues/{queue}/pause", "pauseQueue", "Workers", "Start nothing new of it",
        (Reply(200, "The queue.", answers.QueueState),),
        for_admins=True,
    ),
    Operation(
        "POST", "/queues/{queue}/resumption", "resumeQueue", "Workers", "Start what waits",
        (Reply(200, "The queue.", answers.QueueState),),
        for_admins=True,
    ),
    Operation(
        "GET", "/openapi.json", "getDocument", "Contract", "This document",
        (
            Reply(200, "OpenAPI 3.1.", headers=("ETag",), media={"application/json": {"type": "object"}}),
            Reply(304, "It is the one that you know.", headers=("ETag",)),
        ),
        parameters=(IF_NONE_MATCH,),
        is_open=True,
    ),
)  # fmt: skip
