"""What people call their exports, and note about them"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exports", sa.Column("name", sa.Text()))
    op.add_column("exports", sa.Column("note", sa.Text()))
