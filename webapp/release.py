"""Which release of ours this is."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    try:
        return importlib.metadata.version("exportdesk")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
