"""Fixtures of the faults."""

from fresh_stores import each_resources, each_settings, migrated_postgres, writer
from worker_processes import settings, start_worker

__all__ = ["each_resources", "each_settings", "migrated_postgres", "settings", "start_worker", "writer"]
