"""Who we are at a token endpoint: with a secret, with a signed assertion (RFC 7523), or by our id alone.

Above it: `protocol`. Below it: `joserfc`, `cryptography`.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from secrets import token_hex
from typing import Final, assert_never
from urllib.parse import quote

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from penstock.base import limits
from penstock.runtime.upstreams.oauth.model import (
    AuthorizationServer,
    ClientMethod,
    OAuthClient,
    OAuthServer,
    authorization_failed,
)

__all__ = ["configured_client", "proven", "secret_method"]

_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_RSA_ALGORITHMS: Final = ("RS256", "PS256", "RS384", "RS512")
_EC_ALGORITHMS: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


def configured_client(server: OAuthServer, authorization: AuthorizationServer) -> OAuthClient | None:
    """The client that the settings name; None if it has to be registered."""
    if server.client_id is None:
        if server.client_metadata_url is None or not authorization.takes_metadata_urls:
            return None
        method: ClientMethod = "none" if server.private_key is None else "private_key_jwt"
        return OAuthClient(client_id=server.client_metadata_url, method=method)
    if server.private_key is not None:
        return OAuthClient(client_id=server.client_id, method="private_key_jwt")
    method = "none" if server.client_secret is None else secret_method(authorization)
    return OAuthClient(client_id=server.client_id, method=method)


def secret_method(authorization: AuthorizationServer) -> ClientMethod:
    """How a secret is sent: as a header, unless the authorization server takes it in the body only."""
    methods = authorization.methods
    if methods is not None and "client_secret_basic" not in methods and "client_secret_post" in methods:
        return "client_secret_post"
    return "client_secret_basic"


def proven(
    server: OAuthServer, client: OAuthClient, authorization: AuthorizationServer, form: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The form and the headers of a token request, with the proof of who we are. May block while a secret is read."""
    method = client.method
    match method:
        case "none":
            return {**form, "client_id": client.client_id}, {}
        case "client_secret_post":
            return {**form, "client_id": client.client_id, "client_secret": _secret(server, client)}, {}
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(_secret(server, client), safe='')}"
            return dict(form), {"authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"}
        case "private_key_jwt":
            assertion = _assertion(server, client, authorization)
            return {
                **form,
                "client_id": client.client_id,
                "client_assertion": assertion,
                "client_assertion_type": _ASSERTION_TYPE,
            }, {}
        case _:
            assert_never(method)


def _secret(server: OAuthServer, client: OAuthClient) -> str:
    if client.issued_secret is not None:
        return client.issued_secret
    if server.client_secret is None:
        raise authorization_failed(server.name, "its client has no secret")
    return server.client_secret()


def _assertion(server: OAuthServer, client: OAuthClient, authorization: AuthorizationServer) -> str:
    if server.private_key is None:
        raise authorization_failed(server.name, "its client has no private key")
    algorithm, key = _signing_key(server, authorization, server.private_key())
    now = int(time.time())
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": authorization.issuer,
        "iat": now,
        "exp": now + limits.OAUTH_ASSERTION_SECONDS,
        "jti": token_hex(16),
    }
    return jwt.encode({"alg": algorithm, "typ": "JWT"}, claims, key, algorithms=[algorithm])


def _signing_key(server: OAuthServer, authorization: AuthorizationServer, pem: str) -> tuple[str, RSAKey | ECKey]:
    offered = authorization.signing_algorithms
    try:
        found = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        found = None
    if isinstance(found, RSAPrivateKey):
        algorithm = next((name for name in _RSA_ALGORITHMS if offered is None or name in offered), None)
        if algorithm is not None:
            return algorithm, RSAKey.import_key(pem)
    elif isinstance(found, EllipticCurvePrivateKey):
        algorithm = _EC_ALGORITHMS.get(found.curve.name)
        if algorithm is not None and (offered is None or algorithm in offered):
            return algorithm, ECKey.import_key(pem)
    else:
        hint = f"name a PEM file without a passphrase in mcp_servers.{server.name}.auth.private_key"
        raise authorization_failed(server.name, "its private key is neither an RSA nor an EC key", hint)
    raise authorization_failed(server.name, f"{authorization.issuer} does not accept keys of the configured type")
