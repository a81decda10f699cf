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
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Milliseconds, nullable=False),
    Column("expires_at", Milliseconds, nullable=False),
    Index("ix_sessions_expires_at", "expires_at"),
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
    Index("ix_api_tokens_user_id", "user_id"),
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
    Index("ix_exports_owner_created", "owner", "created_at", "id"),
    Index("ix_exports_created", "created_at", "id"),
    Index("ix_exports_owner_status_created", "owner", "status", "created_at", "id"),
    Index("ix_exports_owner_started", "owner", "started_at"),
    Index("ix_exports_status_created", "status", "created_at", "id"),
    Index("ix_exports_status_queued", "status", "queued_at", "id"),
    Index("ix_exports_past_runs", "dataset", "format", "status", "completed_at"),
    Index("ix_exports_file_expires", "file_expires_at", sqlite_where=text("file_expires_at IS NOT NULL"),
          postgresql_where=text("file_expires_at IS NOT NULL")),
)  # fmt: skip

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
    Column("export_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("version", Integer, nullable=False),
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

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("event_id", Text, ForeignKey("events.id", ondelete="CASCADE"), nullable=False),
    Column("event_type", Text, nullable=False),
    Column("export_id", Text, nullable=False),
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
    Index("ix_deliveries_endpoint_state_created", "endpoint_id", "state", "created_at", "id"),
    Index("ix_deliveries_state_created", "state", "created_at", "id"),
    Index("ix_deliveries_created", "created_at", "id"),
    Index("ix_deliveries_export_created", "export_id", "created_at", "id"),
    Index("ix_deliveries_owed", "endpoint_id", "next_attempt_at", sqlite_where=text("state = 'pending'"),
          postgresql_where=text("state = 'pending'")),
    Index("ix_deliveries_leased", "endpoint_id", "lease_until", sqlite_where=text("lease_until IS NOT NULL"),
          postgresql_where=text("lease_until IS NOT NULL")),
)  # fmt: skip

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
    UniqueConstraint("delivery_id", "number"),
    Index("ix_delivery_attempts_endpoint_started", "endpoint_id", "started_at"),
)

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

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Json, nullable=False),
    Column("updated_at", Milliseconds, nullable=False),
)
