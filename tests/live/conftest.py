"""Stores of both kinds, see `fresh_stores`."""

from fresh_stores import migrated_postgres

__all__ = ["migrated_postgres"]
