"""Ids and names that lead out of a folder, at every address with a parameter."""

from __future__ import annotations

import re

import httpx
import pytest
from api.problem_documents import SECRETS
from api.test_api_access import addresses

from webapp.routes import routes

PARAMETER = re.compile(r"\{(\w+)\}")
ALIKE = {
    ("GET", "/sign-in/once/{token}"): 200,
    ("POST", "/sign-in/once/{token}"): 401,
    ("GET", "/account/email/{token}"): 200,
    ("POST", "/account/tokens/{token_id}/revocation"): 200,
    ("POST", "/admin/tokens/{token_id}/revocation"): 200,
    ("POST", "/monitor/workers/{worker_id}/drain/cancellation"): 303,
}
"""They answer every id or token of this shape alike: ask first, lead back, or let nobody in."""
REFUSED = {400, 404, 405, 415, 422}
WITH_PARAMETER = sorted(each for each in addresses(routes()) if PARAMETER.search(each[1]) and each[0].isupper())
WAYS_OUT = (
    "%2e%2e",
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2fetc%2fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "%252e%252e%252fetc%252fpasswd",
    "exp_%2e%2e%00.csv",
)


@pytest.mark.parametrize("way_out", WAYS_OUT)
async def test_nothing_is_found_there(admin_client: httpx.AsyncClient, way_out: str) -> None:
    answered = dict[tuple[str, str], int]()
    for method, path in WITH_PARAMETER:
        async with admin_client.stream(method, PARAMETER.sub(way_out, path)) as answer:
            text = (await answer.aread()).decode("utf-8", "replace")
        answered[method, path] = answer.status_code
        assert "root:" not in text
        assert not SECRETS.search(text), (method, path)
    wrong = {each: status for each, status in answered.items() if status not in REFUSED and status != ALIKE.get(each)}
    assert not wrong
