"""Fixtures of the command line."""

from fresh_stores import database_kind, each_resources, each_settings, empty_postgres, migrated_postgres, writer

__all__ = ["database_kind", "each_resources", "each_settings", "empty_postgres", "migrated_postgres", "writer"]
