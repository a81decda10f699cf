"""The OpenAPI document as tests use it: read strictly, so that a member which it does not name is a mistake."""

from __future__ import annotations

import copy
from typing import Any


def strict(document: dict[str, Any]) -> dict[str, Any]:
    """Answers may grow, so the document leaves its objects open; here each has the members it is said to have alone."""
    closed = copy.deepcopy(document)
    for schema in closed["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return closed
