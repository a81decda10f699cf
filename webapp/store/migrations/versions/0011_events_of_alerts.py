"""Events, and what is owed for them, that are not an export's"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """SQLite copies both tables. A number of an event is never used twice, so the highest one is carried over."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    highest = _highest_number() if is_sqlite else None
    with op.batch_alter_table("events", table_kwargs={"sqlite_autoincrement": True}) as events:
        events.alter_column("export_id", existing_type=sa.Text(), nullable=True)
        events.alter_column("owner", existing_type=sa.Text(), nullable=True)
        events.alter_column("version", existing_type=sa.Integer(), nullable=True)
    if highest is not None:
        op.execute("DELETE FROM sqlite_sequence WHERE name = 'events'")
        op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('events', {int(highest)})")
    with op.batch_alter_table("deliveries") as deliveries:
        deliveries.alter_column("export_id", existing_type=sa.Text(), nullable=True)


def _highest_number() -> int | None:
    return op.get_bind().execute(sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'events'")).scalar()
