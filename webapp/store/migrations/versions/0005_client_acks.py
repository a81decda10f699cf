"""What clients confirmed to have taken in"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "client_acks",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("acked_at", sa.BigInteger(), nullable=False),
        sa.Column("latency_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_client_acks_event_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_client_acks_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("event_id", "user_id", "client", name=op.f("pk_client_acks")),
    )
    op.create_index("ix_client_acks_acked", "client_acks", ["acked_at"])
    op.create_index("ix_client_acks_user_client_acked", "client_acks", ["user_id", "client", "acked_at"])
