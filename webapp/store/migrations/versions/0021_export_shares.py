"""With whom finished files are shared"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "export_shares",
        sa.Column("export_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("shared_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=True),
        sa.Column("downloads", sa.Integer(), nullable=False),
        sa.Column("downloaded_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["export_id"], ["exports.id"], name=op.f("fk_export_shares_export_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_export_shares_user_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["shared_by"], ["users.id"], name=op.f("fk_export_shares_shared_by"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("export_id", "user_id", name=op.f("pk_export_shares")),
    )
    op.create_index("ix_export_shares_user_id", "export_shares", ["user_id", "seen_at"])
    op.create_index("ix_export_shares_shared_by", "export_shares", ["shared_by"])
