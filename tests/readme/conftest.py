"""Fixtures of the README's tests."""

from fresh_stores import empty_postgres, migrated_postgres

__all__ = ["empty_postgres", "migrated_postgres"]
