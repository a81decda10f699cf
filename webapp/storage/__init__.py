"""Finished files: in a local folder, or in a bucket that speaks S3."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from webapp.settings import Downloads, Settings
from webapp.storage.interface import Elsewhere, OnDisk, Place, Relayed, Storage, StorageUnusable
from webapp.storage.local import LocalStorage

__all__ = [
    "Elsewhere",
    "LocalStorage",
    "OnDisk",
    "Place",
    "Relayed",
    "Storage",
    "StorageUnusable",
    "open_storage",
]


def open_storage(settings: Settings) -> Storage:
    """A bucket's files are written into the data folder first. Raises StorageUnusable."""
    parts = urlsplit(settings.storage_url)
    if parts.scheme != "s3":
        return LocalStorage(Path(unquote(parts.path)))
    try:
        from webapp.storage.s3 import S3Storage  # only who stores there needs the package
    except ImportError:
        mend = "install exportdesk with its extra s3: pip install '.[s3]'"
        raise StorageUnusable("EXPORTDESK_STORAGE_URL needs the package obstore", mend) from None
    prefix = unquote(parts.path).strip("/")
    return S3Storage(
        parts.netloc,
        prefix,
        settings.data_dir / "work",
        credentials=settings.s3_credentials,
        allow_http=settings.s3_allow_http,
        relays=settings.downloads is Downloads.RELAY,
    )
