"""How each session began: by password, by a one-time link, or at the OpenID provider"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("entrance", sa.Text()))
