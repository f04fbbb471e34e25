"""Alembic's entry: runs the versions on the connection that `migrate.py` hands over."""

from alembic import context

from fleetagent.adapters.postgres.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, compare_server_default=False)
with context.begin_transaction():
    context.run_migrations()
