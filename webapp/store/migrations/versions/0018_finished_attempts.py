"""Attempts that are under way are not in the index of those that have finished"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

NAME, TABLE, COLUMNS = "ix_delivery_attempts_finished", "delivery_attempts", ["finished_at"]


def upgrade() -> None:
    ended = sa.text("finished_at IS NOT NULL")
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, COLUMNS, sqlite_where=ended, postgresql_where=ended)


def downgrade() -> None:
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, COLUMNS)
