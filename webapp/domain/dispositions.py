"""Under which name a downloaded file is saved."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote


def content_disposition(name: str) -> str:
    """RFC 6266: an ASCII fallback for old clients, and the real name in UTF-8."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    fallback = "".join(c if c.isalnum() or c in " ._-" else "_" for c in plain).strip()
    stem, dot, extension = fallback.partition(".")
    if not stem.strip("_ "):
        fallback = f"export{dot}{extension}".rstrip(".")
    return f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe='')}"
