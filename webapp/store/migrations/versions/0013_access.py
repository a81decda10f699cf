"""Groups and grants, scopes of tokens, where sessions are used, who people are elsewhere, language and time zone"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ALL_SCOPES = '["read","export","callbacks","admin"]'


def upgrade() -> None:
    op.add_column("users", sa.Column("language", sa.Text()))
    op.add_column("users", sa.Column("timezone", sa.Text()))
    op.add_column("sessions", sa.Column("last_seen_at", sa.BigInteger()))
    op.add_column("sessions", sa.Column("agent", sa.Text()))
    op.add_column("sessions", sa.Column("address", sa.Text()))
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.add_column("api_tokens", sa.Column("scopes", sa.Text()))
    op.execute(sa.text("UPDATE api_tokens SET scopes = :scopes WHERE kind = 'api'").bindparams(scopes=ALL_SCOPES))
    op.create_table(
        "groups",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_groups_name")),
    )
    op.create_table(
        "group_members",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_group_members_group_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_group_members_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("group_id", "user_id", name=op.f("pk_group_members")),
    )
    op.create_index("ix_group_members_user_id", "group_members", ["user_id"])
    op.create_table(
        "granted_datasets",
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("dataset", name=op.f("pk_granted_datasets")),
    )
    op.create_table(
        "grants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"], ["granted_datasets.dataset"], name=op.f("fk_grants_dataset"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_grants_user_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name=op.f("fk_grants_group_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
        sa.UniqueConstraint("dataset", "user_id", name=op.f("uq_grants_dataset_user_id")),
        sa.UniqueConstraint("dataset", "group_id", name=op.f("uq_grants_dataset_group_id")),
    )
    op.create_index("ix_grants_user_id", "grants", ["user_id"])
    op.create_index("ix_grants_group_id", "grants", ["group_id"])
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_identities_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"])
