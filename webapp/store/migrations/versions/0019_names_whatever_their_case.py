"""Names of people are told apart whatever their case, and none is what the audit log calls the desk itself

Of people whose names differ by case alone the one who was added first keeps it; each other one gets a number behind
theirs, which the log and the audit log tell.
"""

import json
import logging
import time
from collections.abc import Collection

import sqlalchemy as sa
from alembic import op

from webapp.domain.ids import new_id

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

RESERVED = ("exportdesk", "openid", "proxy", "system")
LONGEST = 63
AUDIT = (
    "INSERT INTO audit_log (id, actor, action, subject, details, timestamp) "
    "VALUES (:id, 'exportdesk', 'user.renamed', :subject, :details, :timestamp)"
)
log = logging.getLogger(__name__)


def upgrade() -> None:
    connection = op.get_bind()
    people = connection.execute(sa.text("SELECT id, name FROM users ORDER BY created_at, id")).fetchall()
    for user_id, name, new in renamed(people):
        connection.execute(sa.text("UPDATE users SET name = :name WHERE id = :id"), {"name": new, "id": user_id})
        told = {"id": new_id("aud"), "subject": new, "details": json.dumps({"before": name})}
        connection.execute(sa.text(AUDIT), told | {"timestamp": time.time_ns() // 1_000_000})
        log.warning("the user %s is called %s from now on: names are told apart whatever their case", name, new)
    op.create_index("ix_users_folded_name", "users", [sa.text("lower(name)")], unique=True)


def renamed(people: Collection[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Id, name and new name of those who cannot keep theirs, of all in the order in which they were added."""
    firsts: dict[str, str] = {}
    for user_id, name in people:
        if name.lower() not in RESERVED:
            firsts.setdefault(name.lower(), user_id)
    taken = {*RESERVED, *firsts}
    found: list[tuple[str, str, str]] = []
    for user_id, name in people:
        if firsts.get(name.lower()) == user_id:
            continue
        numbered = (f"{name[: LONGEST - 1 - len(str(number))]}-{number}" for number in range(2, len(people) + 3))
        new = next(each for each in numbered if each.lower() not in taken)
        taken.add(new.lower())
        found.append((user_id, name, new))
    return found
