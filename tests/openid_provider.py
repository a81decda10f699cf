"""A real OpenID provider on this machine: Authlib's server side behind Flask. `claims` are what it says of whoever
comes; `forge` changes an ID token's claims after the rules and before the signature."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, jsonify
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

CLIENT, SECRET = "desk", "a secret: with %signs"


class Desk(ClientMixin):
    """The one client it knows."""

    redirect_uri = "http://testserver/sign-in/openid/callback"

    def get_client_id(self) -> str:
        return CLIENT

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self.redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Code(AuthorizationCodeMixin):
    code: str
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str | None
    code_challenge_method: str | None
    auth_time: int = 0
    claims: dict[str, Any] = field(default_factory=dict[str, Any])

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return self.auth_time

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


class Provider:
    def __init__(self) -> None:
        self.claims: dict[str, Any] = {"sub": "1", "preferred_username": "cleo"}
        self.forge: dict[str, Any] = {}
        self.codes: dict[str, Code] = {}
        self.rotate()
        app = Flask(__name__)
        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._rules(app)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def rotate(self) -> None:
        """A new key instead of the one before."""
        self.key = RSAKey.generate_key(2048, auto_kid=True)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _rules(self, app: Flask) -> None:
        provider = self

        class Grant(AuthorizationCodeGrant):
            TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic",)

            def save_authorization_code(self, code: str, request: Any) -> None:
                data = request.payload.data
                provider.codes[code] = Code(
                    code,
                    request.payload.redirect_uri,
                    request.payload.scope,
                    data.get("nonce"),
                    data.get("code_challenge"),
                    data.get("code_challenge_method"),
                    claims=dict(provider.claims),
                )

            def query_authorization_code(self, code: str, client: Any) -> Code | None:
                return provider.codes.get(code)

            def delete_authorization_code(self, authorization_code: Code) -> None:
                del provider.codes[authorization_code.code]

            def authenticate_user(self, authorization_code: Code) -> dict[str, Any]:
                return authorization_code.claims

        class OpenID(OpenIDCode):
            def exists_nonce(self, nonce: str, request: Any) -> bool:
                return False

            def get_client_algorithm(self, client: Any) -> str:
                return "RS256"

            def get_client_claims(self, client: Any) -> dict[str, Any]:
                return {"iss": provider.issuer}

            def resolve_client_private_key(self, client: Any) -> RSAKey:
                return provider.key

            def get_encode_header(self, client: Any) -> dict[str, Any]:
                return {"alg": "RS256", "kid": provider.key.kid}

            def generate_user_info(self, user: dict[str, Any], scope: str) -> UserInfo:
                return UserInfo(**{**user, **provider.forge})

        server = AuthorizationServer(app, query_client=lambda _id: Desk(), save_token=lambda _token, _request: None)
        server.register_grant(Grant, [OpenID(require_nonce=True), CodeChallenge(required=True)])

        @app.get("/.well-known/openid-configuration")
        def discovery() -> Any:
            return jsonify(
                issuer=provider.issuer,
                authorization_endpoint=f"{provider.issuer}/authorize",
                token_endpoint=f"{provider.issuer}/token",
                jwks_uri=f"{provider.issuer}/keys",
                token_endpoint_auth_methods_supported=["client_secret_basic"],
            )

        @app.get("/keys")
        def keys() -> Any:
            return jsonify(keys=[provider.key.as_dict(private=False)])

        @app.get("/authorize")
        def authorize() -> Any:
            """Whoever comes is signed in there already."""
            user = dict(provider.claims)
            return server.create_authorization_response(grant_user=user, grant=server.get_consent_grant(end_user=user))

        @app.post("/token")
        def token() -> Any:
            return server.create_token_response()


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.stop()
