"""The server under test, over HTTP: its addresses, its keys, and what it answers.

An answer that is not JSON has an empty object for a body, as for every client that reads an envelope. Nothing is
repeated, except calls of the admin plane that only prepare a check and are told to wait (`Plane.patient`).

Above it: `kit`. Below it: httpx2.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2

from penstock.cli.verify.checks import CheckFailed

__all__ = ["Answer", "Json", "Plane", "Target", "expect_data", "expect_refused", "open_http"]

Json: TypeAlias = dict[str, Any]

_TIMEOUT_SECONDS = 60.0
_WAIT_SECONDS_MAX = 65.0
_OK = 200
_TOO_MANY = 429
_CLIENT_ERROR = range(400, 500)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the server is, and the keys to it."""

    url: str
    key: str | None = None
    """A token for the agent plane."""
    admin_key: str | None = None
    """A key that may make apps, keys and approvals on the admin plane."""
    approver_key: str | None = None
    """A key of somebody who decides about drafts, if that is somebody else than whoever makes the keys."""
    admin_headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of the admin plane, for servers that authenticate it in another way."""
    agent_path: str = "/api/agent/v1"
    admin_path: str = "/api/agent-admin/v1"
    mcp_path: str = "/mcp"
    patience_seconds: float = 120.0
    """How long a check waits for a record that may be written late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server answered, and to what."""

    request: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Json:
        """The envelope; empty if the body is not a JSON object."""
        try:
            found = json.loads(self.text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def data(self) -> Json:
        """The data of a success; empty if there is none."""
        found = self.body.get("data")
        return found if isinstance(found, dict) else {}

    @property
    def code(self) -> str | None:
        """The reason code."""
        found = self.body.get("code")
        return found if isinstance(found, str) else None

    @property
    def items(self) -> list[Json]:
        """The items of a list."""
        found = self.data.get("items")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    @property
    def is_success(self) -> bool:
        """Whether it is a success in the envelope."""
        return self.status == _OK and self.body.get("ok") is True

    @property
    def is_enveloped_refusal(self) -> bool:
        """Whether it is a refusal in the envelope: not ok, with a code and a message."""
        body = self.body
        return (
            self.status in _CLIENT_ERROR
            and body.get("ok") is False
            and isinstance(body.get("code"), str)
            and isinstance(body.get("message"), str)
        )

    def __repr__(self) -> str:
        return f"{self.request} → {self.status} {self.text[:300]}"


def expect_data(answer: Answer) -> Json:
    """Return the data of an answer that must be a success."""
    if not answer.is_success:
        raise CheckFailed("a success in the envelope", str(answer))
    return answer.data


def expect_refused(answer: Answer, *statuses: int, codes: tuple[str, ...] = ()) -> None:
    """Fail unless an answer is a refusal in the envelope, with one of these statuses and codes."""
    wanted = f"{' or '.join(map(str, statuses)) or '4xx'} in the envelope"
    if codes:
        wanted += f" with {' or '.join(codes)}"
    fits = answer.is_enveloped_refusal and (not statuses or answer.status in statuses)
    if not fits or (codes and answer.code not in codes):
        raise CheckFailed(wanted, str(answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Requests below one path, with one credential."""

    http: httpx2.AsyncClient
    path: str
    headers: Mapping[str, str]

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Make one request; a body is sent as JSON, and `content` as it is."""
        sent = {"content-type": "application/json", **self.headers, **(headers or {})}
        raw = content if content is not None else None if body is None else json.dumps(body).encode()
        try:
            response = await self.http.request(
                method, f"{self.path}{path}", params=query, content=raw, headers={k: v for k, v in sent.items() if v}
            )
        except httpx2.TransportError as error:
            raise CheckFailed(f"an answer to {method} {self.path}{path}", f"{type(error).__name__}: {error}") from error
        return Answer(
            request=f"{method} {self.path}{path}",
            status=response.status_code,
            headers=dict(response.headers),
            text=response.text,
        )

    async def patient(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> Answer:
        """Make a request that prepares a check; wait and repeat it if the server says that it is too early."""
        waited = 0.0
        while True:
            answer = await self.request(method, path, body, query=query)
            if answer.status != _TOO_MANY or waited >= _WAIT_SECONDS_MAX:
                return answer
            wait = answer.headers.get("retry-after", "")
            seconds = min(float(wait) if wait.isdecimal() else 1.0, _WAIT_SECONDS_MAX)
            waited += seconds
            await asyncio.sleep(seconds)


def open_http(target: Target, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """Return a client of the server that follows no redirect, because that would send the keys elsewhere."""
    parts = urlsplit(target.url)
    return httpx2.AsyncClient(
        base_url=target.url.removesuffix("/"),
        timeout=_TIMEOUT_SECONDS,
        follow_redirects=False,
        verify=parts.scheme == "https",
        trust_env=(parts.hostname or "") not in _LOOPBACK,
        transport=transport,
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64),
    )
