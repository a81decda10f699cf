"""Fixtures of the faults."""

from worker_processes import start_worker

__all__ = ["start_worker"]
