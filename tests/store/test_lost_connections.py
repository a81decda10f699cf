"""A task whose connection to PostgreSQL is lost can borrow another one."""

from __future__ import annotations

import pytest
from fresh_stores import opened_store
from sqlalchemy import text

from webapp.store.database import DATABASE_ERRORS

pytestmark = pytest.mark.postgres
LOST = text("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize("in_transaction", [False, True], ids=["statement", "transaction"])
async def test_the_same_task_goes_on(empty_postgres: str, in_transaction: bool) -> None:
    async with opened_store(empty_postgres) as store:
        for _ in range(3):
            with pytest.raises(DATABASE_ERRORS):
                async with store.transaction() if in_transaction else store.connection():
                    await store.execute(LOST)
            assert await store.fetch_val(text("SELECT 1")) == 1


async def test_who_gives_back_a_broken_connection_has_done_its_work(empty_postgres: str) -> None:
    async with opened_store(empty_postgres) as store, opened_store(empty_postgres) as other:
        async with store.connection():
            number = await store.fetch_val(text("SELECT pg_backend_pid()"))
            await other.execute(text(f"SELECT pg_terminate_backend({number})"))
        assert await store.fetch_val(text("SELECT 1")) == 1
