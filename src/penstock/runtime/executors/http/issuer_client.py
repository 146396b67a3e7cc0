"""The HTTP client for token issuers: fetches their documents and asks them about tokens.

An operator names the issuers, so their addresses may be private. Plain HTTP is allowed for this machine only. Redirects
are not followed, because a redirect could replace the keys that verify tokens.

Above it: `app` passes it to the gate. Below it: `outbound`, httpx2.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from urllib.parse import quote

import httpx2

from penstock.base import limits
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates
from penstock.runtime.ports.issuers import (
    Fetched,
    GrantRefused,
    IntrospectionRequest,
    IssuerResponse,
    NotFetched,
    TokenRequest,
    TokenResponse,
)

__all__ = ["HttpIssuerClient"]

_OK = 200
# How a token endpoint says no; anything else is a failure that may pass.
_REFUSALS = (400, 401, 403)
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class HttpIssuerClient:
    """An `IssuerClient` over HTTP."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None

    async def fetch(self, url: str) -> IssuerResponse:
        """Return a document."""
        return await self._send(httpx2.Request("GET", url, headers={"accept": "application/json"}))

    async def introspect(self, request: IntrospectionRequest) -> IssuerResponse:
        """Return what an issuer says about a token, asked with the credentials of this server."""
        headers = {"accept": "application/json", "authorization": _basic(request.client_id, request.client_secret)}
        body = {"token": request.token, "token_type_hint": "access_token"}
        return await self._send(httpx2.Request("POST", request.url, headers=headers, data=body))

    async def exchange(self, request: TokenRequest) -> TokenResponse:
        """Return the tokens that an issuer gives for a code or a refresh token."""
        return await self._asked(_as_client(request, {**request.grant, "resource": request.resource}), _REFUSALS)

    async def revoke(self, request: TokenRequest) -> IssuerResponse:
        """Revoke a refresh token."""
        return await self._send(_as_client(request, {**request.grant, "token_type_hint": "refresh_token"}))

    async def _send(self, request: httpx2.Request) -> IssuerResponse:
        answer = await self._asked(request)
        return NotFetched("it refused") if isinstance(answer, GrantRefused) else answer

    async def _asked(self, request: httpx2.Request, refusals: tuple[int, ...] = ()) -> TokenResponse:
        url = request.url
        if url.scheme != "https" and not (url.scheme == "http" and url.host in _THIS_MACHINE):
            return NotFetched("its address must begin with https://")
        try:
            async with asyncio.timeout(limits.ISSUER_FETCH_SECONDS):
                return await self._bounded(request, refusals)
        except (TimeoutError, httpx2.TimeoutException):
            return NotFetched(f"no answer within {limits.ISSUER_FETCH_SECONDS:g} s")
        except httpx2.InvalidURL:
            return NotFetched("its address is not valid")
        except httpx2.ConnectError as error:
            return NotFetched(truncated(f"no connection: {error}"))
        except httpx2.HTTPError as error:
            return NotFetched(f"the exchange broke off: {type(error).__name__}")

    async def _bounded(self, request: httpx2.Request, refusals: tuple[int, ...]) -> TokenResponse:
        client = await self._opened()
        response = await client.send(request, stream=True, follow_redirects=False)
        status = response.status_code
        try:
            if status != _OK and status not in refusals:
                return NotFetched(f"the status of its answer is {status}")
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > limits.ISSUER_DOCUMENT_BYTES_MAX:
                    return NotFetched(f"its answer is larger than {limits.ISSUER_DOCUMENT_BYTES_MAX} bytes")
        finally:
            await response.aclose()
        return Fetched(bytes(body)) if status == _OK else _refusal(bytes(body), status)

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            # No proxy from the environment and no compression: an answer is as large as it says.
            self._client = httpx2.AsyncClient(
                verify=await trusted_certificates(),
                trust_env=False,
                headers={"accept-encoding": "identity"},
                timeout=limits.ISSUER_FETCH_SECONDS,
            )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


def _as_client(request: TokenRequest, body: dict[str, str]) -> httpx2.Request:
    """Return a request that the client at the issuer makes, with its credentials."""
    headers, sent = {"accept": "application/json"}, {**body}
    if request.client_secret is not None and request.secret_in_header:
        headers["authorization"] = _basic(request.client_id, request.client_secret)
    else:
        sent["client_id"] = request.client_id
        sent |= {} if request.client_secret is None else {"client_secret": request.client_secret}
    return httpx2.Request("POST", request.url, headers=headers, data=sent)


def _basic(client_id: str, client_secret: str) -> str:
    """Return the header of a client with a secret. RFC 6749, section 2.3.1: both parts are form-encoded first."""
    credentials = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    return f"Basic {b64encode(credentials.encode()).decode()}"


def _refusal(body: bytes, status: int) -> GrantRefused | NotFetched:
    """Return the issuer's error code. A proxy in between may refuse without one."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    return GrantRefused(error) if isinstance(error, str) else NotFetched(f"the status of its answer is {status}")
