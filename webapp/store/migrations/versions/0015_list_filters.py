"""Indexes for lists of one dataset or one format"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("dataset", "format"):
        op.create_index(f"ix_exports_{name}_created", "exports", [name, "created_at", "id"])
        op.create_index(f"ix_exports_owner_{name}_created", "exports", ["owner", name, "created_at", "id"])
