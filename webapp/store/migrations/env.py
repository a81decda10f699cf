"""Alembic's entry point; `store.schema` hands over the connection."""

from alembic import context

from webapp.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
