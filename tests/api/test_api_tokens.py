"""One's own tokens by API: a revoked one is gone from its address, and still in the list."""

from __future__ import annotations

import httpx
from api.problem_documents import problem_of


async def test_a_revoked_token_is_in_the_list_alone(client: httpx.AsyncClient) -> None:
    made = (await client.post("/api/v1/tokens", json={"name": "nightly"})).json()
    address = f"/api/v1/tokens/{made['id']}"
    assert (await client.get(address)).json()["revoked_at"] is None
    assert (await client.delete(address)).status_code == 204
    problem_of(await client.get(address), 404, "NOT_FOUND")
    [listed] = (await client.get("/api/v1/tokens")).json()["items"]
    assert listed["revoked_at"] is not None
