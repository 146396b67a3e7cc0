"""Requests that are broken in every way we know, as bytes; each by a name that says how."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

from tests.live.rest.wire import request_head

__all__ = ["Broken", "broken_requests", "mangled"]

_EXECUTE = "/api/v0/workflows/count/executions"


class Broken(NamedTuple):
    """A request, and which statuses answer it; without a status the server may also just hang up."""

    name: str
    parts: tuple[bytes, ...]
    statuses: tuple[int, ...]
    may_hang_up: bool = False


def _post(key: str, body: bytes, *more: str, path: str = _EXECUTE) -> tuple[bytes, ...]:
    head = request_head("POST", path, key, "Content-Type: application/json", f"Content-Length: {len(body)}", *more)
    return (head, body)


def _bodies(key: str) -> Iterator[Broken]:
    deep = b'{"input":' + b'{"a":' * 500 + b"1" + b"}" * 501
    abyss = b"[" * 200_000 + b"]" * 200_000
    for name, body, statuses in (
        ("no JSON", b"hello", (400,)),
        ("half a JSON", b'{"input": {"number": 1', (400,)),
        ("two JSONs", b"{}{}", (400,)),
        ("NaN", b'{"input": {"number": NaN}}', (400,)),
        ("an infinite number", b'{"input": {"number": 1e999}}', (400, 422)),
        ("a number beyond counting", b'{"input": {"number": ' + b"9" * 5_000 + b"}}", (400, 422)),
        ("a list", b"[]", (400,)),
        ("a text", b'"number"', (400,)),
        ("null", b"null", (400,)),
        ("bad UTF-8", b'{"input": {"number": "\xff\xfe"}}', (400,)),
        ("half a surrogate pair", b'{"input": {"number": "\\ud800"}}', (400, 422)),
        ("NUL bytes", b"\x00" * 64, (400,)),
        ("a NUL in a name", b'{"in\\u0000put": 1}', (422,)),
        ("UTF-16", '{"input": {"number": 1}}'.encode("utf-16"), (400,)),
        ("nesting", deep, (400, 422)),
        ("abysmal nesting", abyss, (400,)),
        ("wrong types", b'{"input": 3, "sync": "yes", "labels": []}', (422,)),
        ("unknown members", b'{"inputs": {}}', (422,)),
        ("members of the path", b'{"workflow_id": "other"}', (400,)),
    ):
        yield Broken(f"a body with {name}", _post(key, body), statuses)
    yield Broken("a body of another type", _typed(key, "text/html", b"<p>"), (415,))
    yield Broken("a body of a strange type", _typed(key, "a/b;" + "x" * 500, b"{}"), (415,))
    yield Broken("a body that is said to be compressed", _post(key, b"\x1f\x8b\x08", "Content-Encoding: gzip"), (400,))


def _typed(key: str, media_type: str, body: bytes) -> tuple[bytes, ...]:
    head = request_head("POST", _EXECUTE, key, f"Content-Type: {media_type}", f"Content-Length: {len(body)}")
    return (head, body)


def _large(key: str) -> Iterator[Broken]:
    filler = b"x" * 65_536
    declared = request_head("POST", _EXECUTE, key, "Content-Type: application/json", "Content-Length: 4194304")
    yield Broken("a large body that is declared", (declared, *[filler] * 64), (413,))
    giant = request_head("POST", _EXECUTE, key, "Content-Type: application/json", "Content-Length: 99999999999")
    yield Broken(
        "a giant body, the sender waits", (giant.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"),), (413,)
    )
    yield Broken("a giant body that begins to come", (giant, *[filler] * 400), (413,), may_hang_up=True)
    chunked = request_head("POST", _EXECUTE, key, "Content-Type: application/json", "Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + filler + b"\r\n"
    yield Broken("a large body in chunks", (chunked, *[chunk] * 64, b"0\r\n\r\n"), (413,))
    yield Broken("endless chunks", (chunked, *[chunk] * 400), (413,), may_hang_up=True)


def _targets(key: str) -> Iterator[Broken]:
    for name, path, statuses in (
        ("that does not exist", "/api/v0/nothing", (404,)),
        ("above the root", "/api/v0/../../etc/passwd", (404,)),
        ("with %00", "/api/v0/workflows/%00", (404, 422)),
        ("with bad UTF-8", "/api/v0/workflows/%ff%fe", (400,)),
        ("with half a surrogate", "/api/v0/workflows/%ed%a0%80", (400,)),
        ("with a bad escape", "/api/v0/workflows/%zz", (404,)),
        ("with an encoded slash", "/api/v0/workflows/a%2Fb%2Fc%2Fd", (404,)),
        ("with a slash at the end", "/api/v0/info/", (404,)),
        ("with a long id", "/api/v0/workflows/" + "a" * 8_000, (404, 422)),
        ("that is too long", "/api/v0/workflows/" + "a" * 60_000, (414,)),
        ("and query that are too long", "/api/v0/workflows?prefix=" + "a" * 60_000, (414,)),
        ("and a query with bad UTF-8", "/api/v0/workflows?prefix=%ff", (400,)),
        ("and a query with NUL", "/api/v0/workflows?cursor=%00", (422,)),
        ("and an unknown parameter", "/api/v0/workflows?limits=3", (422,)),
        ("and a parameter twice", "/api/v0/workflows?limit=3&limit=4", (422,)),
        ("and a wrong number", "/api/v0/workflows?limit=many", (422,)),
        ("and a number out of range", "/api/v0/workflows?limit=99999999999999999999", (422,)),
        ("and many parameters", "/api/v0/workflows?" + "&".join(f"a{n}=1" for n in range(1_000)), (400, 422)),
    ):
        yield Broken(f"a path {name}", (request_head("GET", path, key),), statuses)
    raw = request_head("GET", "/api/v0/workflows/RAW", key)
    yield Broken("a path with raw bytes", (raw.replace(b"RAW", b"\xff\xfe"),), (400,))
    yield Broken("a path with raw UTF-8", (raw.replace(b"RAW", "ü".encode()),), (400, 404))


def _heads(key: str) -> Iterator[Broken]:
    for name, lines, statuses in (
        ("a large header", ("X-Filler: " + "x" * 200_000,), (431,)),
        ("many headers", tuple(f"X-Filler-{number}: {'x' * 50}" for number in range(3_000)), (431,)),
        ("two keys", ("Authorization: Bearer other",), (400,)),
        ("two lengths", ("Content-Length: 1", "Content-Length: 2"), (400,)),
        ("two types", ("Content-Type: application/json", "Content-Type: text/html"), (400,)),
        ("length and chunks", ("Content-Length: 5", "Transfer-Encoding: chunked"), (400,)),
        ("a length that is no number", ("Content-Length: many",), (400,)),
        ("a negative length", ("Content-Length: -1",), (400,)),
        ("an unknown coding", ("Transfer-Encoding: rot13",), (400,)),
    ):
        yield Broken(f"a head with {name}", (request_head("GET", "/api/v0/info", key, *lines),), statuses)
    info = request_head("GET", "/api/v0/info", None)
    for name, value, statuses in (
        ("a key with a NUL", b"Bearer a\x00b", (400,)),
        ("a key with bad UTF-8", b"Bearer \xff\xfe", (401,)),
        ("a long key", b"Bearer " + b"x" * 20_000, (401,)),
        ("another scheme", b"Basic YTpi", (401,)),
        ("no key", b"Bearer ", (401,)),
    ):
        head = info.replace(b"\r\n\r\n", b"\r\nAuthorization: " + value + b"\r\n\r\n")
        yield Broken(f"a head with {name}", (head,), statuses)
    for name, value, statuses in (
        ("of bad UTF-8", b"\xff\xfe", (422,)),
        ("that is empty", b"", (422,)),
        ("that is too long", b"k" * 1_000, (422,)),
        ("with a space", b"a b", (422,)),
    ):
        head = request_head("POST", _EXECUTE, key, "Content-Length: 2")
        parts = (head.replace(b"\r\n\r\n", b"\r\nIdempotency-Key: " + value + b"\r\n\r\n"), b"{}")
        yield Broken(f"an idempotency key {name}", parts, statuses)
    stream = "/api/v0/executions/waits-1/stream"
    for name in ("one", "-1", "1.x", "99999", "\uff19", "9" * 40):
        head = request_head("GET", stream, key, f"Last-Event-ID: {name}")
        yield Broken(f"a stream after {name[:8]}", (head,), (422,))


def _methods(key: str) -> Iterator[Broken]:
    for method in ("DELETE", "PATCH", "PUT", "POST", "TRACE", "PROPFIND"):
        yield Broken(f"{method} where it is not possible", (request_head(method, "/api/v0/info", key),), (405,))
        yield Broken(f"{method} of a page", (request_head(method, "/healthz", key),), (405,))
    yield Broken("a method that is none", (request_head("FROBNICATE", "/api/v0/info", key),), (400,))
    yield Broken("CONNECT", (request_head("CONNECT", "127.0.0.1:80", key),), (400, 404, 405), may_hang_up=True)


def _not_http(key: str) -> Iterator[Broken]:
    for name, sent in (
        ("text", b"hello\r\n\r\n"),
        ("NUL bytes", b"\x00" * 1_000 + b"\r\n\r\n"),
        ("TLS", bytes.fromhex("16030100c8010000c40303") + b"\x01" * 200),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("another version", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"),
        ("a header without a colon", b"GET /healthz HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n"),
        ("a header with a space before the colon", b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n"),
    ):
        yield Broken(f"{name} instead of HTTP", (sent,), (400,), may_hang_up=True)
    bad_chunk = request_head("POST", _EXECUTE, key, "Content-Type: application/json", "Transfer-Encoding: chunked")
    yield Broken("a chunk without a size", (bad_chunk, b"zz\r\n{}\r\n0\r\n\r\n"), (400,), may_hang_up=True)


def broken_requests(key: str) -> list[Broken]:
    """One of each kind."""
    return [
        *_bodies(key),
        *_large(key),
        *_targets(key),
        *_heads(key),
        *_methods(key),
        *_not_http(key),
    ]


def mangled(key: str, seed: int) -> bytes:
    """A request with some bytes of it changed, left out or put in, at random."""
    chance = random.Random(seed)
    body = json.dumps({"input": {"number": chance.randrange(10)}, "labels": {"a": "b"}}).encode()
    sent = bytearray(b"".join(_post(key, body)))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(sent))
        match chance.randrange(3):
            case 0:
                sent[at] = chance.randrange(256)
            case 1:
                del sent[at : at + chance.randint(1, 8)]
            case _:
                sent[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(sent)
