"""The secrets of endpoints: new ones beside old ones, and the end of those."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from webapp.actions.endpoint_changes import change
from webapp.domain.access import Viewer
from webapp.domain.callbacks import LONGEST_OVERLAP, ROTATION_OVERLAP, Endpoint, Secret
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.domain.signing import new_secret
from webapp.resources import Resources
from webapp.store import endpoints as rows

MOST_SECRETS = 5


async def rotate(
    resources: Resources, actor: Viewer, endpoint_id: str, *, overlap: timedelta = ROTATION_OVERLAP
) -> Endpoint:
    """A new secret, the first of the endpoint's; those of before sign beside it for the overlap at most.

    Raises Invalid and NotFound.
    """
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise Invalid([FieldError("overlap", say("Must be from nothing to {days} days.", days=LONGEST_OVERLAP.days))])

    def rotated(endpoint: Endpoint, at: datetime) -> Endpoint:
        return replace(endpoint, secrets=(Secret(new_secret(), at), *_ending(endpoint, at, at + overlap)))

    return await change(
        resources, actor, endpoint_id, "endpoint.secret_rotated", rotated,
        {"overlap_seconds": int(overlap.total_seconds())}, shown="secret",
    )  # fmt: skip


def _ending(endpoint: Endpoint, at: datetime, latest: datetime) -> tuple[Secret, ...]:
    """The secrets of before, none of which signs after `latest`. Raises Invalid when there are too many."""
    ending = [
        replace(secret, expires_at=min(secret.expires_at or latest, latest)) for secret in endpoint.valid_secrets(at)
    ]
    left = tuple(secret for secret in ending if secret.is_valid(at))
    if len(left) >= MOST_SECRETS:
        sentence = say(
            "{count} secrets are in force already. Wait until one ends, or let them all end now with 0s.",
            count=MOST_SECRETS,
        )
        raise Invalid([FieldError("overlap", sentence)])
    return left


async def drop_expired_secrets(resources: Resources) -> int:
    """For the sweep: what does not sign any more need not be kept. Gives back how many endpoints had such."""
    store, dropped = resources.store, 0
    async with store.connection():
        now = await store.now()
        found = await rows.changed_ones(store, resources.sealer)
    for endpoint in found:
        valid = endpoint.valid_secrets(now)
        if valid != endpoint.secrets:
            async with store.transaction():
                after = replace(endpoint, secrets=valid)
                dropped += await rows.compare_and_set(store, endpoint, after, resources.sealer) is not None
    return dropped
