"""The checks of `penstock mcp doctor` for signing in: from the 401 to the scopes, as a client walks the chain.

Each link names the next one: the challenge the metadata, the metadata the issuers, an issuer its keys and how clients
register. The first link that is wrong is reported with what to do about it. Nothing is changed and no token is needed.

Above it: `connection_checks`. Below it: an HTTP client.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.cli.terminal.checks import Check
from penstock.governance.tokens.signing_keys import UnreadableKeys, read_signing_keys

__all__ = ["check_sign_in", "metadata_address"]

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_METADATA = re.compile(r'resource_metadata="([^"]*)"')
_ISSUERS_MAX = 3
_OK = 200
_GUIDE = "docs/guides/oauth-issuers.md has recipes for issuers"


def metadata_address(challenge: str | None) -> str | None:
    """Return where a challenge says that the metadata is."""
    found = _METADATA.search(challenge or "")
    return None if found is None else found[1]


async def check_sign_in(
    http: httpx2.AsyncClient, url: str, challenge: Callable[[], str | None]
) -> AsyncIterator[Check]:
    """Check how clients sign in at a server; nothing is yielded if it takes keys only.

    `challenge` returns what the server told a request without a key.
    """
    address, named = await _found_metadata(http, url, challenge())
    if address is None:
        return
    if named is None:
        message = f"there is metadata at {address}, but the 401 does not name it"
        hint = "clients look for `resource_metadata` in WWW-Authenticate; is there a proxy that drops the header?"
        yield Check(name="sign-in", status="warn", message=message, hint=hint)
    metadata = await _document(http, address)
    if isinstance(metadata, str):
        message = f"the metadata at {address} cannot be read: {metadata}"
        hint = "server.public_url must be the address that clients use; a proxy must let /.well-known through"
        yield Check(name="sign-in", status="fail", message=message, hint=hint)
        return
    found = _resource(metadata, url)
    yield found
    if found.status == "fail":
        return
    issuers = [item for item in _list(metadata, "authorization_servers") if isinstance(item, str)]
    for issuer in issuers[:_ISSUERS_MAX]:
        async for check in _issuer(http, issuer, [str(scope) for scope in _list(metadata, "scopes_supported")]):
            yield check


async def _found_metadata(http: httpx2.AsyncClient, url: str, challenge: str | None) -> tuple[str | None, str | None]:
    """Return the address of the metadata, and the one that the challenge names."""
    named = metadata_address(challenge)
    if named is not None:
        return named, named
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    for address in dict.fromkeys((f"{origin}{_WELL_KNOWN}{parts.path.rstrip('/')}", f"{origin}{_WELL_KNOWN}")):
        if not isinstance(await _document(http, address), str):
            return address, None
    return None, None


async def _document(http: httpx2.AsyncClient, url: str) -> JsonObject | str:
    """Return a JSON object, or why it cannot be had."""
    try:
        response = await http.get(url, headers={"Accept": "application/json"})
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return str(error) or type(error).__name__
    if response.status_code != _OK:
        return f"the status is {response.status_code}"
    if len(response.content) > limits.ISSUER_DOCUMENT_BYTES_MAX:
        return "it is too large"
    try:
        found: Any = json.loads(response.content)
    except (ValueError, RecursionError):
        return "it is not JSON"
    return found if isinstance(found, dict) else "it is not a JSON object"


def _list(document: JsonObject, name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []


def _resource(metadata: JsonObject, url: str) -> Check:
    resource = metadata.get("resource")
    same = isinstance(resource, str) and (url.partition("?")[0].rstrip("/") + "/").startswith(
        resource.rstrip("/") + "/"
    )
    if not same:
        message = f"the server calls itself {resource}, and you reach it at {url}: tokens would be for another audience"
        hint = "set server.public_url to the address that clients use"
        return Check(name="resource", status="fail", message=message, hint=hint)
    if not _list(metadata, "authorization_servers"):
        message = "the metadata names no issuer, so nobody can sign in"
        return Check(name="resource", status="fail", message=message, hint="name one in auth.oauth.issuers")
    return Check(name="resource", status="ok", message=f"tokens are for {resource}")


async def _issuer(http: httpx2.AsyncClient, issuer: str, scopes: list[str]) -> AsyncIterator[Check]:
    found = await _issuer_metadata(http, issuer)
    if isinstance(found, str):
        message = f"the metadata of {issuer} cannot be used: {found}"
        hint = f"auth.oauth.issuers needs the issuer exactly as it calls itself; {_GUIDE}"
        yield Check(name="issuer", status="fail", message=message, hint=hint)
        return
    missing = [name for name in ("authorization_endpoint", "token_endpoint") if not isinstance(found.get(name), str)]
    if missing:
        message = f"{issuer} does not say where its {' and '.join(missing)} are"
        yield Check(name="issuer", status="warn", message=message, hint="people cannot sign in there; services may")
    elif "S256" not in _list(found, "code_challenge_methods_supported"):
        message = f"{issuer} does not say that it takes PKCE with S256, and clients must refuse to sign in without it"
        yield Check(name="issuer", status="fail", message=message, hint="switch PKCE on at the issuer")
        return
    else:
        yield Check(name="issuer", status="ok", message=f"people sign in at {issuer}")
    yield await _keys(http, found)
    yield _registration(found)
    yield _scopes(found, scopes)


async def _issuer_metadata(http: httpx2.AsyncClient, issuer: str) -> JsonObject | str:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    reason = "there is none"
    for address in dict.fromkeys(
        (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}/.well-known/openid-configuration{path}",
            f"{origin}{path}/.well-known/openid-configuration",
        )
    ):
        found = await _document(http, address)
        if isinstance(found, str):
            reason = found
        elif found.get("issuer") != issuer:
            reason = f"at {address} it calls itself {found.get('issuer')}"
        else:
            return found
    return reason


async def _keys(http: httpx2.AsyncClient, metadata: JsonObject) -> Check:
    address = metadata.get("jwks_uri")
    if not isinstance(address, str):
        hint = "set jwks_url in auth.oauth.issuers, or introspection for tokens that only the issuer can read"
        return Check(name="keys", status="warn", message="the issuer does not say where its keys are", hint=hint)
    document = await _document(http, address)
    if isinstance(document, str):
        message = f"the keys at {address} cannot be read: {document}"
        return Check(name="keys", status="fail", message=message, hint="tokens cannot be verified without them")
    keys = read_signing_keys(json.dumps(document).encode())
    if isinstance(keys, UnreadableKeys):
        message = f"the keys at {address} are of no use: {keys.reason}"
        return Check(name="keys", status="fail", message=message, hint="let the issuer sign with RS256 or ES256")
    used = sorted({name for key in keys.keys for name in key.algorithms})
    return Check(name="keys", status="ok", message=f"{len(keys.keys)} keys for {', '.join(used)}")


def _registration(metadata: JsonObject) -> Check:
    methods = _list(metadata, "token_endpoint_auth_methods_supported")
    if metadata.get("client_id_metadata_document_supported") is True:
        if methods and "none" not in methods:
            message = "clients name themselves with a document, but the token endpoint wants a secret from everybody"
            return Check(name="register", status="warn", message=message, hint="allow the method `none` at the issuer")
        return Check(name="register", status="ok", message="clients name themselves with a metadata document")
    if isinstance(metadata.get("registration_endpoint"), str):
        message = "clients register themselves (dynamic registration, which newer clients give up)"
        return Check(name="register", status="ok", message=message)
    message = "nothing says how a client gets its client id, so most assistants fail without a word"
    hint = "register each assistant at the issuer, and give it the client id"
    return Check(name="register", status="warn", message=message, hint=hint)


def _scopes(metadata: JsonObject, wanted: list[str]) -> Check:
    if not wanted:
        hint = "clients ask for nothing then; set auth.oauth.scopes"
        return Check(name="scopes", status="warn", message="the server does not say which scopes to ask for", hint=hint)
    known = [str(scope) for scope in _list(metadata, "scopes_supported")]
    if not known:
        message = "the issuer does not list its scopes; clients will ask for " + ", ".join(wanted)
        return Check(name="scopes", status="skip", message=message)
    unknown = [scope for scope in wanted if scope not in known]
    if unknown:
        message = f"the server tells clients to ask for {', '.join(unknown)}, which the issuer does not know"
        hint = "create them at the issuer, or name its own in auth.oauth.scopes and scope_map"
        return Check(name="scopes", status="fail", message=message, hint=hint)
    return Check(name="scopes", status="ok", message=f"both know {', '.join(wanted)}")
