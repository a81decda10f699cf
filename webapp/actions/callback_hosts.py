"""The hosts that the `callback_url` of an order may name: an admin lists them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_network

from webapp.actions.reach import reach
from webapp.domain.access import Viewer
from webapp.domain.addresses import AllowedTargets
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say, sentence_of
from webapp.domain.targets import BadTarget, parse_target
from webapp.resources import Resources
from webapp.store import app_settings, people

MOST_HOSTS = 200
ANYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))
NOT_LISTED = say("Callbacks of an order may go to listed hosts only. Ask an admin to list this one.")


async def listed(resources: Resources) -> tuple[str, ...]:
    async with resources.store.connection():
        return await _listed(resources)


async def _listed(resources: Resources) -> tuple[str, ...]:
    found: list[str] | None = await app_settings.get(resources.store, app_settings.CALLBACK_HOSTS)
    return tuple(found or ())


async def change(resources: Resources, actor: Viewer, hosts: Sequence[str]) -> tuple[str, ...]:
    """Each once, in order, as they are compared. Raises Invalid."""
    wanted = _checked(hosts)
    async with resources.store.transaction():
        store, now = resources.store, await resources.store.now()
        before = await _listed(resources)
        if wanted != before:
            await app_settings.put(store, app_settings.CALLBACK_HOSTS, wanted, at=now)
            details = {
                "added": [host for host in wanted if host not in before],
                "removed": [host for host in before if host not in wanted],
            }
            await people.audit(
                store, actor=actor.name, action="callback_hosts.changed", subject="hosts", at=now, details=details
            )
    return wanted


async def check_callback_url(resources: Resources, url: str) -> None:
    """Raises Invalid with the field `callback_url`. Of a host that is not listed nothing is looked up."""
    try:
        target = parse_target(url, AllowedTargets.parse(resources.settings.callback_allow_private))
        if target.host.rstrip(".") not in await listed(resources):
            raise BadTarget(NOT_LISTED)
        await reach(resources, url)
    except BadTarget as error:
        raise Invalid([FieldError("callback_url", sentence_of(error))]) from error


def _checked(hosts: Sequence[str]) -> tuple[str, ...]:
    errors: list[FieldError] = []
    listed: dict[str, None] = {}
    for host in hosts:
        try:
            listed[_canonical(host.strip())] = None
        except BadTarget:
            sentence = say(
                "{host} is not a host: give a name or an address without port or path.", host=repr(host[:80])
            )
            errors.append(FieldError("hosts", sentence))
    if len(listed) > MOST_HOSTS:
        errors.append(FieldError("hosts", say("At most {most} hosts can be listed.", most=MOST_HOSTS)))
    if errors:
        raise Invalid(errors)
    return tuple(listed)


def _canonical(host: str) -> str:
    """As `parse_target` reads it, wherever it leads: what may be reached is another question. Raises BadTarget."""
    plain = host.removeprefix("[").removesuffix("]")
    if any(character in host for character in "/?#@") or (":" in plain and not _is_ipv6(plain)):
        raise BadTarget
    written = f"[{plain}]" if ":" in plain else plain
    open_to_all = AllowedTargets(ANYWHERE, frozenset({(plain.lower().rstrip("."), 443)}))
    return parse_target(f"https://{written}/", open_to_all).host.rstrip(".")


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
