"""When saved orders are ordered by themselves"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("saved_order_id", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("retry_at", sa.BigInteger(), nullable=True),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column("stopped_at", sa.BigInteger(), nullable=True),
        sa.Column("stop", sa.Text(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("export_id", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["saved_order_id"], ["saved_orders.id"], name=op.f("fk_schedules_saved_order_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("saved_order_id", name=op.f("pk_schedules")),
    )
    op.create_index("ix_schedules_next", "schedules", ["next_at"])
    op.create_index("ix_schedules_outcome", "schedules", ["outcome", "due_at"])
