"""Issuers are asked within bounds, on a real socket."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.base import limits
from penstock.runtime.executors.http.issuer_client import HttpIssuerClient
from penstock.runtime.ports.issuers import Fetched, GrantRefused, IntrospectionRequest, NotFetched, TokenRequest
from tests.connections import hang_up

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(answer: bytes, seen: list[bytes] | None = None) -> AsyncIterator[str]:
    """A server that gives one answer to everybody, and notes what it was asked."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"content-length" in line.lower()), 0
        )
        body = await reader.readexactly(length)
        if seen is not None:
            seen.append(head + body)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}"
    finally:
        await hang_up(writers)


def response(status: str, body: bytes = b"", *headers: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers])
    return head.encode() + b"\r\n\r\n" + body


async def fetched(url: str) -> Fetched | NotFetched:
    client = HttpIssuerClient()
    try:
        return await client.fetch(url)
    finally:
        await client.close()


async def test_a_document_is_fetched() -> None:
    async with answering(response("200 OK", b'{"keys": []}')) as url:
        assert await fetched(f"{url}/jwks") == Fetched(b'{"keys": []}')


async def test_a_redirect_is_not_followed() -> None:
    seen: list[bytes] = []
    async with (
        answering(response("200 OK", b"{}"), seen) as elsewhere,
        answering(response("302 Found", b"", f"location: {elsewhere}/jwks")) as url,
    ):
        found = await fetched(f"{url}/jwks")
    assert isinstance(found, NotFetched)
    assert "302" in found.reason
    assert not seen


async def test_an_answer_without_end_is_cut_off() -> None:
    body = b"x" * (limits.ISSUER_DOCUMENT_BYTES_MAX + 1)
    async with answering(response("200 OK", body)) as url:
        found = await fetched(url)
    assert isinstance(found, NotFetched)
    assert "larger" in found.reason


@pytest.mark.parametrize(
    "url", ["http://login.example/jwks", "http://10.0.0.1/jwks", "ftp://127.0.0.1/jwks", "http://127.0.0.1.example/"]
)
async def test_plain_http_is_for_this_machine_only(url: str) -> None:
    found = await fetched(url)
    assert isinstance(found, NotFetched)
    assert "https://" in found.reason


async def test_nobody_there_is_a_reason_and_no_error() -> None:
    async with answering(b"") as url:
        pass
    assert isinstance(await fetched(url), NotFetched)


async def test_a_token_is_asked_about_with_the_credentials_of_this_server() -> None:
    seen: list[bytes] = []
    client = HttpIssuerClient()
    try:
        async with answering(response("200 OK", b'{"active": false}'), seen) as url:
            request = IntrospectionRequest(
                url=f"{url}/introspect", token="opaque", client_id="a:b", client_secret="s e"
            )
            assert await client.introspect(request) == Fetched(b'{"active": false}')
    finally:
        await client.close()
    (sent,) = seen
    assert b"token=opaque" in sent
    assert base64.b64encode(b"a%3Ab:s%20e") in sent
    assert "opaque" not in repr(request)
    assert "s e" not in repr(request)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        ("200 OK", b'{"access_token": "a"}', Fetched(b'{"access_token": "a"}')),
        ("400 Bad Request", b'{"error": "invalid_grant"}', GrantRefused("invalid_grant")),
        ("401 Unauthorized", b'{"error": "invalid_client"}', GrantRefused("invalid_client")),
        ("403 Forbidden", b"<h1>the proxy says no</h1>", NotFetched("the status of its answer is 403")),
        ("400 Bad Request", b'["error"]', NotFetched("the status of its answer is 400")),
        ("503 Unavailable", b'{"error": "temporarily_unavailable"}', NotFetched("the status of its answer is 503")),
    ],
)
async def test_a_refusal_of_a_grant_is_told_from_a_failure(
    status: str, body: bytes, expected: Fetched | GrantRefused | NotFetched
) -> None:
    seen: list[bytes] = []
    async with answering(response(status, body), seen) as url:
        client = HttpIssuerClient()
        request = TokenRequest(
            url=f"{url}/token",
            grant={"grant_type": "refresh_token", "refresh_token": "s3cret"},
            client_id="console",
            client_secret=None,
            resource="https://flows.example/mcp",
        )
        assert await client.exchange(request) == expected
        await client.close()
    assert b"refresh_token=s3cret" in seen[0]
    assert "s3cret" not in repr(request)
