"""What came of a request, what a confirmation measured, and which version ran when; totals by dataset"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

PADDED = (("notification_latency", "\x1f"), ("deliveries", "\x1f\x1f"))
"""Metrics that have more labels now, and what makes up for those that older rows lack."""


def upgrade() -> None:
    op.add_column("delivery_attempts", sa.Column("outcome", sa.Text()))
    op.add_column("delivery_attempts", sa.Column("latency_ms", sa.BigInteger()))
    op.create_index("ix_delivery_attempts_finished", "delivery_attempts", ["finished_at"])
    op.add_column("client_acks", sa.Column("is_measured", sa.Integer()))
    op.create_table(
        "versions",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("first_ran_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_versions")),
    )
    totals = sa.table("tallies_over_time", sa.column("metric", sa.Text()), sa.column("labels", sa.Text()))
    for metric, more in PADDED:
        op.execute(totals.update().where(totals.c.metric == metric).values(labels=totals.c.labels + more))
    settings = sa.table("settings", sa.column("name", sa.Text()))
    op.execute(settings.delete().where(settings.c.name.in_(["monitored_tallies", "ended_exports"])))
