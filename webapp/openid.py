"""OpenID Connect, the client's side: the code flow with PKCE, state and nonce, and an ID token whose signature, issuer,
audience, times and nonce are checked. Signatures and claims are joserfc's work."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from webapp.settings import OpenIDSettings

if TYPE_CHECKING:
    import aiohttp

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""None that needs a shared secret, and never `none`."""
SECONDS = 10.0
BYTES = 512 * 1024
LEEWAY_SECONDS = 60
METADATA_SECONDS = 3600.0
REFUSAL = "access_denied"


class OpenIDFailed(Exception):
    """For the log: what people are told is that it did not work."""


class OpenIDAway(OpenIDFailed):
    """The provider does not answer, or is out of order."""


class OpenIDRefused(OpenIDFailed):
    """The provider did not let them in, or they changed their mind there."""


class Metadata(msgspec.Struct, frozen=True):
    """What discovery tells, as far as it matters here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Trip(msgspec.Struct, frozen=True):
    """What has to come back unchanged, and the way on from there. Sealed, in a cookie."""

    state: str
    nonce: str
    verifier: str
    following: str
    began_at: float


class Provider:
    """One provider. What it tells of itself is kept for an hour; its keys until one is asked for that is not there."""

    def __init__(self, settings: OpenIDSettings, redirect_uri: str) -> None:
        self.settings = settings
        self.redirect_uri = redirect_uri
        self._metadata: tuple[Metadata, float] | None = None
        self._keys: KeySet | None = None

    async def departure(self, following: str) -> tuple[str, Trip]:
        """Where to send the browser. Raises OpenIDFailed."""
        metadata = await self._discovered()
        trip = Trip(_random(), _random(), _random(), following, time.time())
        challenge = base64.urlsafe_b64encode(hashlib.sha256(trip.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self.settings.scopes,
            "state": trip.state,
            "nonce": trip.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return f"{metadata.authorization_endpoint}{joint}{urlencode(query)}", trip

    async def arrival(self, trip: Trip, query: Mapping[str, str]) -> Mapping[str, Any]:
        """The claims of who has signed in. Raises OpenIDFailed."""
        metadata = await self._discovered()
        if not hmac.compare_digest(query.get("state", "").encode(), trip.state.encode()):
            raise OpenIDFailed("the state is another one")
        if query.get("iss", metadata.issuer) != metadata.issuer:
            raise OpenIDFailed("the answer comes from another issuer")
        if "error" in query:
            failure = OpenIDRefused if query["error"] == REFUSAL else OpenIDFailed
            raise failure(f"the provider answered {query['error'][:100]!r}")
        token = await self._redeemed(metadata, query.get("code", ""), trip.verifier)
        return await self._checked(metadata, token, trip.nonce)

    async def _discovered(self) -> Metadata:
        if self._metadata is not None and time.monotonic() < self._metadata[1]:
            return self._metadata[0]
        url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            found = msgspec.json.decode(await _fetch("GET", url), type=Metadata)
        except msgspec.MsgspecError as error:
            raise OpenIDFailed(f"{url} is not understood: {error}") from error
        if found.issuer != self.settings.issuer:
            raise OpenIDFailed(f"{url} tells of another issuer, {found.issuer[:200]!r}")
        scheme = urlsplit(found.issuer).scheme
        if any(urlsplit(each).scheme not in {"https", scheme} for each in (found.token_endpoint, found.jwks_uri)):
            raise OpenIDFailed(f"{url} leads to addresses without encryption")
        self._metadata = found, time.monotonic() + METADATA_SECONDS
        return found

    async def _redeemed(self, metadata: Metadata, code: str, verifier: str) -> str:
        """The ID token for the code."""
        ours = self.settings
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
            "client_id": ours.client_id,
        }
        headers = dict[str, str]()
        if ours.client_secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(ours.client_id, safe='')}:{quote(ours.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif ours.client_secret:
            sent["client_secret"] = ours.client_secret
        answer = await _fetch("POST", metadata.token_endpoint, sent, headers)
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])["id_token"]
        except (msgspec.MsgspecError, KeyError) as error:
            raise OpenIDFailed("there is no ID token in the answer") from error

    async def _checked(self, metadata: Metadata, token: str, nonce: str) -> Mapping[str, Any]:
        claims = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": metadata.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": self.settings.client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            found = (await self._decoded(metadata, token)).claims
            claims.validate(found)
        except (JoseError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise OpenIDFailed(f"the ID token is not good: {error}") from error
        if found.get("azp", self.settings.client_id) != self.settings.client_id:
            raise OpenIDFailed("the ID token is for somebody else")
        return found

    async def _decoded(self, metadata: Metadata, token: str) -> jwt.Token:
        """With the keys that are known, else with those of now: providers change them."""
        if self._keys is not None:
            try:
                return jwt.decode(token, self._keys, algorithms=list(ALGORITHMS))
            except (JoseError, ValueError):
                pass
        self._keys = await _keys(metadata)
        return jwt.decode(token, self._keys, algorithms=list(ALGORITHMS))

    async def check(self) -> None:
        """Asks it for what signing in needs. Raises OpenIDFailed."""
        metadata = await self._discovered()
        try:
            await _keys(metadata)
        except (JoseError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise OpenIDFailed(f"{metadata.jwks_uri} is not understood: {error}") from error


async def _keys(metadata: Metadata) -> KeySet:
    return KeySet.import_key_set(msgspec.json.decode(await _fetch("GET", metadata.jwks_uri)))


def _random() -> str:
    return secrets.token_urlsafe(32)


async def _fetch(
    method: str, url: str, sent: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """The body of a 200. No redirects, no proxy of the environment, never more than BYTES."""
    import aiohttp  # only where there is a provider

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS), trust_env=False) as session,
            session.request(method, url, data=sent, headers=headers, allow_redirects=False) as response,
        ):
            content = await _read(response)
            if response.status != 200:
                raise (OpenIDAway if response.status >= 500 else OpenIDFailed)(f"{url} answered {response.status}")
            return content
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise OpenIDAway(f"{url} cannot be reached: {type(error).__name__}") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for chunk in response.content.iter_chunked(64 * 1024):
        content += chunk
        if len(content) > BYTES:
            raise OpenIDFailed(f"{response.url.host} answered with more than {BYTES} bytes")
    return content
