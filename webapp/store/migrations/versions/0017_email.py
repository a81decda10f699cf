"""Addresses of people, and who is mailed when an export ends"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("email", sa.Text()))
    op.add_column("users", sa.Column("email_always", sa.Integer()))
    op.add_column("users", sa.Column("email_endpoint", sa.Text()))
    op.add_column("exports", sa.Column("notify", sa.Text()))
