"""Deliveries that succeeded, which nearly all do, leave the indexes by state"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

TABLE = "deliveries"
INDEXES = {
    "ix_deliveries_endpoint_state_created": ["endpoint_id", "state", "created_at", "id"],
    "ix_deliveries_state_created": ["state", "created_at", "id"],
}


def upgrade() -> None:
    others = sa.text("state <> 'succeeded'")
    for name, columns in INDEXES.items():
        op.drop_index(name, TABLE)
        op.create_index(name, TABLE, columns, sqlite_where=others, postgresql_where=others)


def downgrade() -> None:
    for name, columns in INDEXES.items():
        op.drop_index(name, TABLE)
        op.create_index(name, TABLE, columns)
