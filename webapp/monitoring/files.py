"""What other programs watch the desk with: alerting rules for Prometheus, a dashboard for Grafana."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

FILES: Mapping[str, str] = {"alerts": "alerts.yml", "grafana": "grafana.json"}


def content(name: str) -> str:
    """Of one of FILES, by what it is called there."""
    return files("webapp.monitoring").joinpath(FILES[name]).read_text(encoding="utf-8")
