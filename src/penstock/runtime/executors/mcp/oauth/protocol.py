"""The requests of OAuth: find the authorization server of an MCP server, register, get, renew and revoke tokens.

The chain is checked link by link. The metadata of the resource must describe the configured server (RFC 9728, 8707).
The metadata of the authorization server must name the expected issuer (RFC 8414), which is the configured one if the
settings name one. What an authorization server says about an error is not shown, except its code: it may repeat what it
was sent.

Above it: `runtime.upstreams.oauth`, through its port `OAuthProtocol`; `app` makes it. Below it: the modules beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    issuers_match,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.runtime.executors.mcp.oauth import client_proofs
from penstock.runtime.executors.mcp.oauth.challenges import challenge_of
from penstock.runtime.executors.mcp.oauth.documents import (
    ResourceDocument,
    read_authorization_server,
    read_resource_document,
    read_tokens,
)
from penstock.runtime.executors.mcp.oauth.guarded_http import Answer, GuardedHttp
from penstock.runtime.extras import DISTRIBUTION
from penstock.runtime.upstreams.oauth.model import (
    AuthorizationServer,
    Challenge,
    ClientMethod,
    Discovery,
    Grant,
    GrantRefused,
    OAuthClient,
    OAuthServer,
    PendingSignIn,
    Tokens,
    authorization_failed,
    authorization_unavailable,
)

__all__ = ["HttpOAuth"]

_OK, _CREATED, _TOO_MANY, _SERVER_ERROR = 200, 201, 429, 500
_FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_JSON: Final = {"content-type": "application/json", "accept": "application/json"}
_ERROR_CODE: Final = re.compile(r"[a-zA-Z_]{1,60}")
_METHODS: Final[tuple[ClientMethod, ...]] = ("none", "client_secret_basic", "client_secret_post")
# The first message of a client; a server that wants a token says so before it looks at it.
_HELLO: Final = encode_bytes(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "penstock", "version": version(DISTRIBUTION)},
        },
    }
)
_HELLO_HEADERS: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class HttpOAuth:
    """Makes the requests. `allow_private` and `allow_hosts` say which other addresses documents may lead to."""

    def __init__(self, *, allow_private: bool = False, allow_hosts: Sequence[str] = ()) -> None:
        self._allow_private = allow_private
        self._allow_hosts = tuple(allow_hosts)
        self._http: dict[str, GuardedHttp] = {}

    async def close(self) -> None:
        """Close the connections."""
        for http in self._http.values():
            await http.close()

    async def probe(self, server: OAuthServer) -> Challenge | None:
        """Ask a server without a token what it demands."""
        try:
            answer = await self._of(server).send("POST", server.url, headers=_HELLO_HEADERS, content=_HELLO)
        except PenstockError:
            return None  # its documents may be found without it; the search for them reports what is wrong
        return challenge_of(answer.response)

    async def discover(self, server: OAuthServer, challenge: Challenge | None) -> Discovery:
        """Find the authorization server of a server, and check that they belong together."""
        document = await self._resource_document(server, challenge)
        resource = resource_url_from_server_url(server.url)
        if document is not None:
            if not check_resource_allowed(requested_resource=resource, configured_resource=document.resource):
                reason = f"its metadata is that of {document.resource[:200]}, which is another server"
                raise authorization_failed(server.name, reason)
            resource = document.resource
        authorization = await self._authorization_server(server, document)
        return Discovery(
            authorization=authorization, resource=resource, scopes=None if document is None else document.scopes
        )

    def configured_client(self, server: OAuthServer, found: Discovery) -> OAuthClient | None:
        """The client that the settings name; None if it has to be registered."""
        return client_proofs.configured_client(server, found.authorization)

    async def register(
        self, server: OAuthServer, found: Discovery, redirect_uri: str, scopes: Sequence[str]
    ) -> OAuthClient:
        """Register a client (RFC 7591)."""
        authorization = found.authorization
        if authorization.registration_endpoint is None:
            hint = f"name a client with mcp_servers.{server.name}.auth.client_id, or a metadata document of yours"
            raise authorization_failed(
                server.name, f"{authorization.issuer} does not register clients dynamically", hint
            )
        offered = authorization.methods or ("client_secret_basic",)
        method: ClientMethod = next((name for name in _METHODS if name in offered), "none")
        wanted = {
            "client_name": "Penstock",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": "native" if urlsplit(redirect_uri).scheme == "http" else "web",
            **({"scope": " ".join(scopes)} if scopes else {}),
        }
        body = encode_bytes(wanted)
        http = self._of(server)
        answer = await http.send("POST", authorization.registration_endpoint, headers=_JSON, content=body)
        return _registered(server, authorization, answer, redirect_uri, method)

    def authorization_url(self, pending: PendingSignIn) -> str:
        """The address at which a person signs in."""
        digest = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": pending.client.client_id,
            "redirect_uri": pending.redirect_uri,
            "state": pending.state,
            "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"),
            "code_challenge_method": "S256",
            "resource": pending.resource,
        }
        if pending.scopes:
            query["scope"] = " ".join(pending.scopes)
        if "offline_access" in pending.scopes:
            query["prompt"] = "consent"  # OpenID Connect gives it to nobody who was not asked
        endpoint = pending.authorization.authorization_endpoint or ""
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"

    async def exchange_code(self, server: OAuthServer, pending: PendingSignIn, code: str) -> Tokens:
        """Exchange the code of a sign-in for tokens."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
            "resource": pending.resource,
        }
        return await self._tokens(server, pending.client, pending.authorization, form)

    async def refresh(self, server: OAuthServer, grant: Grant) -> Tokens:
        """Renew a grant."""
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token or "", "resource": grant.resource}
        return await self._tokens(server, grant.client, grant.authorization, form)

    async def client_credentials(
        self, server: OAuthServer, found: Discovery, client: OAuthClient, scopes: Sequence[str]
    ) -> Tokens:
        """Get a token in our own name."""
        form = {"grant_type": "client_credentials", "resource": found.resource}
        if scopes:
            form["scope"] = " ".join(scopes)
        return await self._tokens(server, client, found.authorization, form)

    async def revoke(self, server: OAuthServer, grant: Grant) -> None:
        """Revoke a grant at the authorization server (RFC 7009), if it supports that."""
        endpoint = grant.authorization.revocation_endpoint
        if endpoint is None:
            return
        for token, kind in ((grant.refresh_token, "refresh_token"), (grant.access_token, "access_token")):
            if token is not None:
                try:
                    form = {"token": token, "token_type_hint": kind}
                    await self._post(server, grant.client, grant.authorization, endpoint, form)
                except PenstockError:
                    return  # what we held is deleted already, and expires there

    def _of(self, server: OAuthServer) -> GuardedHttp:
        made = self._http.get(server.name)
        if made is None:
            made = self._http[server.name] = GuardedHttp(
                server, allow_private=self._allow_private, allow_hosts=self._allow_hosts
            )
        return made

    async def _resource_document(self, server: OAuthServer, challenge: Challenge | None) -> ResourceDocument | None:
        """The metadata of a server. Servers of the first revision have none."""
        failed: int | None = None
        named = None if challenge is None else challenge.metadata_url
        for url in build_protected_resource_metadata_discovery_urls(named, server.url):
            answer = await self._of(server).send("GET", url, headers={"accept": "application/json"})
            if answer.status == _OK:
                document = read_resource_document(answer.body)
                if document is not None:
                    return document
            elif answer.status >= _SERVER_ERROR or answer.status == _TOO_MANY:
                failed = answer.status
        if failed is not None:
            # It may have metadata: continuing as if it had none could lead to another authorization server.
            raise authorization_unavailable(server.name, f"its metadata cannot be read (HTTP {failed})")
        return None

    async def _authorization_server(
        self, server: OAuthServer, document: ResourceDocument | None
    ) -> AuthorizationServer:
        issuer = _issuer(server, document)
        for url in build_oauth_authorization_server_metadata_discovery_urls(
            issuer if document is not None or server.issuer is not None else None, server.url
        ):
            answer = await self._of(server).send("GET", url, headers={"accept": "application/json"})
            if answer.status >= _SERVER_ERROR or answer.status == _TOO_MANY:
                reason = f"the metadata of {issuer} cannot be read (HTTP {answer.status})"
                raise authorization_unavailable(server.name, reason)
            found = read_authorization_server(answer.body) if answer.status == _OK else None
            if found is None:
                continue
            if found.issuer != issuer and not (document is None and issuers_match(found.issuer, issuer)):
                raise authorization_failed(server.name, f"the metadata of {issuer} is that of {found.issuer[:200]}")
            return found
        raise authorization_failed(server.name, f"{issuer} publishes no metadata of an authorization server")

    async def _tokens(
        self, server: OAuthServer, client: OAuthClient, authorization: AuthorizationServer, form: Mapping[str, str]
    ) -> Tokens:
        answer = await self._post(server, client, authorization, authorization.token_endpoint, form)
        if answer.status not in (_OK, _CREATED):
            if answer.status >= _SERVER_ERROR or answer.status == _TOO_MANY:
                reason = f"{authorization.issuer} gives no token now (HTTP {answer.status})"
                raise authorization_unavailable(server.name, reason)
            raise GrantRefused(_error_code(answer))
        tokens = read_tokens(answer.body)
        if tokens is None:
            raise authorization_failed(server.name, f"{authorization.issuer} gave no bearer token that can be used")
        return tokens

    async def _post(
        self,
        server: OAuthServer,
        client: OAuthClient,
        authorization: AuthorizationServer,
        endpoint: str,
        form: Mapping[str, str],
    ) -> Answer:
        # In a thread: a secret may be the output of a program.
        fields, headers = await asyncio.to_thread(client_proofs.proven, server, client, authorization, form)
        content = urlencode(fields).encode()
        return await self._of(server).send("POST", endpoint, headers={**_FORM, **headers}, content=content)


def _issuer(server: OAuthServer, document: ResourceDocument | None) -> str:
    """The authorization server to use: the configured one, else the first that the server lists, else its origin."""
    if document is None:
        parts = urlsplit(server.url)
        return server.issuer or f"{parts.scheme}://{parts.netloc}"
    listed = document.authorization_servers
    if server.issuer is None:
        return listed[0]
    found = next((issuer for issuer in listed if issuers_match(issuer, server.issuer)), None)
    if found is None:
        reason = f"it wants tokens of {listed[0][:200]}, and the settings name {server.issuer}"
        raise authorization_failed(server.name, reason)
    return found


def _registered(
    server: OAuthServer,
    authorization: AuthorizationServer,
    answer: Answer,
    redirect_uri: str,
    wanted: ClientMethod,
) -> OAuthClient:
    if answer.status not in (_OK, _CREATED):
        code = _error_code(answer)
        raise authorization_failed(server.name, f"{authorization.issuer} does not register us ({code})")
    try:
        given = msgspec.json.decode(answer.body, type=_Registration)
    except msgspec.MsgspecError:
        raise authorization_failed(server.name, f"{authorization.issuer} answers with no registration") from None
    method = given.token_endpoint_auth_method or wanted
    known = next((name for name in _METHODS if name == method), None)
    if known is None or (known != "none" and not given.client_secret):
        reason = f"{authorization.issuer} registered us for {method[:60]}, which is not supported"
        raise authorization_failed(server.name, reason)
    secret = given.client_secret if known != "none" else None
    return OAuthClient(client_id=given.client_id, method=known, issued_secret=secret, redirect_uri=redirect_uri)


class _Registration(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


def _error_code(answer: Answer) -> str:
    try:
        error = msgspec.json.decode(answer.body, type=dict).get("error")
    except msgspec.MsgspecError:
        error = None
    # Nothing but a code: a text may repeat what was sent.
    return error if isinstance(error, str) and _ERROR_CODE.fullmatch(error) else f"HTTP {answer.status}"
