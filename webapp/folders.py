"""Where templates and static files are: inside the package when it was installed from a wheel, else beside it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def template_folder() -> Path:
    return _folder("templates")


def static_folder() -> Path:
    return _folder("static")
