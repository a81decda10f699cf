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
    Index("ix_exports_owner_created", "owner", "created_at", "id"),
    Index("ix_exports_created", "created_at", "id"),
    Index("ix_exports_owner_status_created", "owner", "status", "created_at", "id"),
    Index("ix_exports_status_created", "status", "created_at", "id"),
    Index("ix_exports_status_queued", "status", "queued_at", "id"),
    Index("ix_exports_past_runs", "dataset", "format", "status", "completed_at"),
    Index("ix_exports_file_expires", "file_expires_at", sqlite_where=text("file_expires_at IS NOT NULL"),
          postgresql_where=text("file_expires_at IS NOT NULL")),
)  # fmt: skip

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

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Json, nullable=False),
    Column("updated_at", Milliseconds, nullable=False),
)
