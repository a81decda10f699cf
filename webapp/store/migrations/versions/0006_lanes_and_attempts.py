"""In which lane an export waits, when a person was last served, and the attempts of each export"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exports", sa.Column("lane", sa.Text()))
    op.create_index("ix_exports_owner_started", "exports", ["owner", "started_at"])
    op.create_table(
        "attempts",
        sa.Column("export_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["export_id"], ["exports.id"], name=op.f("fk_attempts_export_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("export_id", "number", name=op.f("pk_attempts")),
    )
