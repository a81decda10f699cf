"""`exportdesk monitoring alerts|grafana`: prints a file for another program."""

from __future__ import annotations

import sys

from webapp.monitoring.files import content


def run_monitoring(name: str) -> int:
    sys.stdout.write(content(name))
    return 0
