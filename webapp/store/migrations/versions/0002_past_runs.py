"""An index to find past runs of a dataset in a format"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_exports_past_runs", "exports", ["dataset", "format", "status", "completed_at"])
