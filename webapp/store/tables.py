"""The tables, in one place. A change here needs a migration in `migrations/versions` (a test compares the two)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

from webapp.store.types import Json, Milliseconds

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("password_hash", Text),
    Column("created_at", Milliseconds, nullable=False),
    Column("disabled_at", Milliseconds),
    Column("language", Text),
    Column("timezone", Text),
    Column("email", Text),
    Column("email_always", Integer),
    Column("email_endpoint", Text),
    Column("email_language", Text),
    Index("ix_users_folded_name", text("lower(name)"), unique=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("expires_at", Milliseconds, nullable=False),
    Column("last_seen_at", Milliseconds),
    Column("agent", Text),
    Column("address", Text),
    Column("entrance", Text),
    Index("ix_sessions_expires_at", "expires_at"),
    Index("ix_sessions_user_id", "user_id"),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("expires_at", Milliseconds),
    Column("revoked_at", Milliseconds),
    Column("last_used_at", Milliseconds),
    Column("scopes", Json),
    Index("ix_api_tokens_user_id", "user_id"),
)

groups = Table(
    "groups",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", Milliseconds, nullable=False),
)

group_members = Table(
    "group_members",
    metadata,
    Column("group_id", Text, ForeignKey("groups.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    PrimaryKeyConstraint("group_id", "user_id"),
    Index("ix_group_members_user_id", "user_id"),
)

granted_datasets = Table(
    "granted_datasets",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("since", Milliseconds, nullable=False),
)

grants = Table(
    "grants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("dataset", Text, ForeignKey("granted_datasets.dataset", ondelete="CASCADE"), nullable=False),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE")),
    Column("group_id", Text, ForeignKey("groups.id", ondelete="CASCADE")),
    Column("created_at", Milliseconds, nullable=False),
    UniqueConstraint("dataset", "user_id"),
    UniqueConstraint("dataset", "group_id"),
    Index("ix_grants_user_id", "user_id"),
    Index("ix_grants_group_id", "group_id"),
)

identities = Table(
    "identities",
    metadata,
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    PrimaryKeyConstraint("issuer", "subject"),
    Index("ix_identities_user_id", "user_id"),
)

exports = Table(
    "exports",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, ForeignKey("users.id"), nullable=False),
    Column("dataset", Text, nullable=False),
    Column("params", Json, nullable=False),
    Column("format", Text, nullable=False),
    Column("options", Json, nullable=False),
    Column("order_key", Text, nullable=False),
    Column("active_key", Text, unique=True),
    Column("status", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("phase", Text),
    Column("rows_done", BigInteger, nullable=False),
    Column("rows_total", BigInteger),
    Column("bytes", BigInteger, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("queued_at", Milliseconds),
    Column("started_at", Milliseconds),
    Column("completed_at", Milliseconds),
    Column("expired_at", Milliseconds),
    Column("cancelled_at", Milliseconds),
    Column("heartbeat_at", Milliseconds),
    Column("retry_at", Milliseconds),
    Column("file_expires_at", Milliseconds),
    Column("file", Json),
    Column("error", Json),
    Column("warnings", Json, nullable=False),
    Column("labels", Json),
    Column("lane", Text),
    Column("name", Text),
    Column("note", Text),
    Column("notify", Text),
    Index("ix_exports_owner_created", "owner", "created_at", "id"),
    Index("ix_exports_created", "created_at", "id"),
    Index("ix_exports_owner_status_created", "owner", "status", "created_at", "id"),
    Index("ix_exports_owner_started", "owner", "started_at"),
    Index("ix_exports_status_created", "status", "created_at", "id"),
    Index("ix_exports_dataset_created", "dataset", "created_at", "id"),
    Index("ix_exports_owner_dataset_created", "owner", "dataset", "created_at", "id"),
    Index("ix_exports_format_created", "format", "created_at", "id"),
    Index("ix_exports_owner_format_created", "owner", "format", "created_at", "id"),
    Index("ix_exports_status_queued", "status", "queued_at", "id"),
    Index("ix_exports_past_runs", "dataset", "format", "status", "completed_at"),
    Index("ix_exports_file_expires", "file_expires_at", sqlite_where=text("file_expires_at IS NOT NULL"),
          postgresql_where=text("file_expires_at IS NOT NULL")),
)  # fmt: skip

export_shares = Table(
    "export_shares",
    metadata,
    Column("export_id", Text, ForeignKey("exports.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("shared_by", Text, ForeignKey("users.id", ondelete="SET NULL")),
    Column("note", Text, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("seen_at", Milliseconds),
    Column("downloads", Integer, nullable=False),
    Column("downloaded_at", Milliseconds),
    PrimaryKeyConstraint("export_id", "user_id"),
    Index("ix_export_shares_user_id", "user_id", "seen_at"),
    Index("ix_export_shares_shared_by", "shared_by"),
)

saved_orders = Table(
    "saved_orders",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("params", Json, nullable=False),
    Column("labels", Json, nullable=False),
    Column("format", Text, nullable=False),
    Column("options", Json, nullable=False),
    Column("zone", Text, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("updated_at", Milliseconds, nullable=False),
    Column("deleted_at", Milliseconds),
    Column("ordered_at", Milliseconds),
    Column("export_id", Text),
    Index("ix_saved_orders_owner_name", "owner", "name", unique=True, sqlite_where=text("deleted_at IS NULL"),
          postgresql_where=text("deleted_at IS NULL")),
    Index("ix_saved_orders_deleted", "deleted_at"),
)  # fmt: skip

schedules = Table(
    "schedules",
    metadata,
    Column("saved_order_id", Text, ForeignKey("saved_orders.id", ondelete="CASCADE"), primary_key=True),
    Column("cron", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("next_at", Milliseconds),
    Column("retry_at", Milliseconds),
    Column("paused_at", Milliseconds),
    Column("stopped_at", Milliseconds),
    Column("stop", Text),
    Column("failures", Integer, nullable=False),
    Column("due_at", Milliseconds),
    Column("export_id", Text),
    Column("outcome", Text),
    Column("created_at", Milliseconds, nullable=False),
    Column("updated_at", Milliseconds, nullable=False),
    Index("ix_schedules_next", "next_at"),
    Index("ix_schedules_outcome", "outcome", "due_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("export_id", Text, ForeignKey("exports.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("started_at", Milliseconds, nullable=False),
    Column("ended_at", Milliseconds),
    Column("outcome", Text),
    Column("error", Json),
    Column("rows", BigInteger),
    PrimaryKeyConstraint("export_id", "number"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("owner", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    Column("order_key", Text, nullable=False),
    Column("export_id", Text, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_idempotency_keys_created_at", "created_at"),
)

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("type", Text, nullable=False),
    Column("export_id", Text),
    Column("owner", Text),
    Column("version", Integer),
    Column("timestamp", Milliseconds, nullable=False),
    Column("data", Json, nullable=False),
    UniqueConstraint("export_id", "version"),
    Index("ix_events_owner_seq", "owner", "seq"),
    Index("ix_events_timestamp", "timestamp"),
    sqlite_autoincrement=True,
)

endpoints = Table(
    "endpoints",
    metadata,
    Column("id", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("event_types", Json, nullable=False),
    Column("datasets", Json, nullable=False),
    Column("schedule", Text, nullable=False),
    Column("waits", Json, nullable=False),
    Column("time_limit_ms", Integer, nullable=False),
    Column("max_in_flight", Integer, nullable=False),
    Column("rate", Integer, nullable=False),
    Column("sealed_headers", Text, nullable=False),
    Column("sealed_secrets", Text, nullable=False),
    Column("sealed_encryption_key", Text),
    Column("created_by", Text, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("updated_at", Milliseconds, nullable=False),
    Column("version", Integer, nullable=False),
    Column("export_id", Text),
    Column("paused_at", Milliseconds),
    Column("disabled_at", Milliseconds),
    Column("disabled_reason", Text),
    Column("failures_in_row", Integer, nullable=False),
    Column("failing_since", Milliseconds),
    Column("last_success_at", Milliseconds),
    Column("last_failure_at", Milliseconds),
    Column("deleted_at", Milliseconds),
    Index("ix_endpoints_export_id", "export_id"),
)

UNSUCCESSFUL = text("state <> 'succeeded'")

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("event_id", Text, ForeignKey("events.id", ondelete="CASCADE"), nullable=False),
    Column("event_type", Text, nullable=False),
    Column("export_id", Text),
    Column("endpoint_id", Text, ForeignKey("endpoints.id", ondelete="CASCADE"), nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("next_attempt_at", Milliseconds),
    Column("lease_token", Text),
    Column("lease_until", Milliseconds),
    Column("completed_at", Milliseconds),
    Column("last_attempt_at", Milliseconds),
    Column("last_status", Integer),
    Column("last_error", Text),
    UniqueConstraint("event_id", "endpoint_id"),
    Index("ix_deliveries_endpoint_created", "endpoint_id", "created_at", "id"),
    Index("ix_deliveries_endpoint_state_created", "endpoint_id", "state", "created_at", "id",
          sqlite_where=UNSUCCESSFUL, postgresql_where=UNSUCCESSFUL),
    Index("ix_deliveries_state_created", "state", "created_at", "id",
          sqlite_where=UNSUCCESSFUL, postgresql_where=UNSUCCESSFUL),
    Index("ix_deliveries_created", "created_at", "id"),
    Index("ix_deliveries_export_created", "export_id", "created_at", "id"),
    Index("ix_deliveries_owed", "endpoint_id", "next_attempt_at", sqlite_where=text("state = 'pending'"),
          postgresql_where=text("state = 'pending'")),
    Index("ix_deliveries_leased", "endpoint_id", "lease_until", sqlite_where=text("lease_until IS NOT NULL"),
          postgresql_where=text("lease_until IS NOT NULL")),
)  # fmt: skip

is_unsuccessful = deliveries.c.state != literal_column("'succeeded'")
"""Nearly all deliveries succeed in the end, so they are not in the indexes by state; who looks for others says so."""

delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("delivery_id", Text, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False),
    Column("endpoint_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("started_at", Milliseconds, nullable=False),
    Column("finished_at", Milliseconds),
    Column("url", Text, nullable=False),
    Column("request_headers", Json, nullable=False),
    Column("request_body", Text, nullable=False),
    Column("status", Integer),
    Column("error", Text),
    Column("response_headers", Json),
    Column("response_body", Text),
    Column("is_cut", Integer),
    Column("duration_ms", Integer),
    Column("outcome", Text),
    Column("latency_ms", BigInteger),
    UniqueConstraint("delivery_id", "number"),
    Index("ix_delivery_attempts_endpoint_started", "endpoint_id", "started_at"),
    Index("ix_delivery_attempts_finished", "finished_at", sqlite_where=text("finished_at IS NOT NULL"),
          postgresql_where=text("finished_at IS NOT NULL")),
)  # fmt: skip

inspectors = Table(
    "inspectors",
    metadata,
    Column("token", Text, primary_key=True),
    Column("created_by", Text, nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("allowed", Json, nullable=False),
    Column("answer_status", Integer, nullable=False),
)

inspector_requests = Table(
    "inspector_requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token", Text, ForeignKey("inspectors.token", ondelete="CASCADE"), nullable=False),
    Column("received_at", Milliseconds, nullable=False),
    Column("address", Text, nullable=False),
    Column("headers", Json, nullable=False),
    Column("body", Text, nullable=False),
    Column("is_cut", Integer, nullable=False),
    Column("webhook_id", Text),
    Column("verdict", Text, nullable=False),
    Column("age_ms", BigInteger),
    Column("is_duplicate", Integer, nullable=False),
    Index("ix_inspector_requests_token_received", "token", "received_at", "id"),
    Index("ix_inspector_requests_received", "received_at"),
    Index("ix_inspector_requests_webhook", "token", "webhook_id"),
)

client_acks = Table(
    "client_acks",
    metadata,
    Column("event_id", Text, ForeignKey("events.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("client", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("acked_at", Milliseconds, nullable=False),
    Column("latency_ms", BigInteger, nullable=False),
    Column("is_measured", Integer),
    PrimaryKeyConstraint("event_id", "user_id", "client"),
    Index("ix_client_acks_user_client_acked", "user_id", "client", "acked_at"),
    Index("ix_client_acks_acked", "acked_at"),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Text, primary_key=True),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Json, nullable=False),
    Column("timestamp", Milliseconds, nullable=False),
    Index("ix_audit_log_timestamp", "timestamp", "id"),
)

tallies = Table(
    "tallies",
    metadata,
    Column("metric", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("milliseconds", BigInteger, nullable=False),
    PrimaryKeyConstraint("metric", "labels", "bucket"),
)

tallies_over_time = Table(
    "tallies_over_time",
    metadata,
    Column("span", Integer, nullable=False),
    Column("began_at", Milliseconds, nullable=False),
    Column("metric", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("span", "began_at", "metric", "labels", "bucket"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("queues", Json, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("slots_taken", Integer, nullable=False),
    Column("sending", Integer, nullable=False),
    Column("memory", BigInteger, nullable=False),
    Column("started_at", Milliseconds, nullable=False),
    Column("heartbeat_at", Milliseconds, nullable=False),
    Column("drain_until", Milliseconds),
    Column("ended_at", Milliseconds),
)

versions = Table(
    "versions",
    metadata,
    Column("version", Text, primary_key=True),
    Column("first_ran_at", Milliseconds, nullable=False),
)

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Json, nullable=False),
    Column("updated_at", Milliseconds, nullable=False),
)
