"""The server under test, over HTTP: its addresses, its keys, and what it answers.

An answer that is not JSON has an empty object for a body, as for every client that reads an envelope. A request that is
told to wait (429, or 503 with `Retry-After`) is repeated when the server says so, unless the check wants to see just
that (`Plane.request_once`). Every answer is searched for the credentials of the run.

Above it: `kit`, `mcp`. Below it: `credentials`, httpx2.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2

from penstock.cli.verify.checks import CheckFailed
from penstock.cli.verify.credentials import Credentials

__all__ = [
    "CHECK_TIMEOUT",
    "Answer",
    "Json",
    "Plane",
    "Target",
    "Traffic",
    "expect_data",
    "expect_refused",
    "open_http",
]

Json: TypeAlias = dict[str, Any]

_TIMEOUT_SECONDS = 60.0
_WAIT_SECONDS_MAX = 65.0
# A server that refuses a caller for longer, without serving it once, never serves it.
_REFUSED_SECONDS_MAX = 2 * _WAIT_SECONDS_MAX
_OK = 200
_TOO_MANY = 429
_BUSY = 503
_TOLD_IN_STREAM = re.compile(r'^data:.*"error":.*"code":\s*"RATE_LIMITED".*"retry_after_seconds":\s*([0-9]{1,4})', re.M)
_CLIENT_ERROR = range(400, 500)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

CHECK_TIMEOUT: ContextVar[asyncio.Timeout | None] = ContextVar("CHECK_TIMEOUT", default=None)
"""How long the current check may take; waiting because the server says so does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the server is, and the keys to it."""

    url: str
    key: str | None = None
    """A token for the agent plane."""
    admin_key: str | None = None
    """A key that may make apps, keys and approvals on the admin plane."""
    approver_key: str | None = None
    """A key of somebody who decides about drafts, if that is somebody else than the maker of the keys."""
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
        """The data of a success; empty without any."""
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


def _told_to_wait(answer: Answer) -> float | None:
    """Return how many seconds a caller has to wait; None if it is served."""
    if answer.status == _TOO_MANY or (answer.status == _BUSY and "retry-after" in answer.headers):
        wait = answer.headers.get("retry-after", "")
        return float(wait) if wait.isdecimal() else 1.0
    # An event stream that had begun when the limit was reached has its status already; the error is in it.
    told = _TOLD_IN_STREAM.search(answer.text) if "RATE_LIMITED" in answer.text else None
    return None if told is None else float(told[1])


@dataclass(slots=True)
class Traffic:
    """What all requests of a run share: the credentials, and who has to wait until when."""

    credentials: Credentials = field(default_factory=Credentials)
    _not_before: dict[str | None, float] = field(default_factory=dict)
    _refused_since: dict[str | None, float] = field(default_factory=dict)

    async def send(self, http: httpx2.AsyncClient, request: httpx2.Request) -> Answer:
        """Send a request, and send it again for as long as the server says that it is too early."""
        caller = request.headers.get("authorization")
        while True:
            await self._wait(self._not_before.get(caller, 0.0) - time.monotonic())
            answer = await self.send_once(http, request)
            wait = _told_to_wait(answer)
            if wait is None:
                self._refused_since.pop(caller, None)
                return answer
            now = time.monotonic()
            since = self._refused_since.setdefault(caller, now)
            if now - since > _REFUSED_SECONDS_MAX:
                return answer
            # As long again as it was refused before: one request may need more of a limit than fills up in that time.
            self._not_before[caller] = now + min(max(wait, now - since), _WAIT_SECONDS_MAX)

    async def send_once(self, http: httpx2.AsyncClient, request: httpx2.Request) -> Answer:
        """Send a request; fail the check if the answer shows a credential of the run."""
        shown = f"{request.method} {request.url.path}"
        try:
            response = await http.send(request)
        except httpx2.TransportError as error:
            raise CheckFailed(f"an answer to {shown}", f"{type(error).__name__}: {error}") from error
        answer = Answer(request=shown, status=response.status_code, headers=dict(response.headers), text=response.text)
        said = "\n".join((*answer.headers.values(), answer.text))
        named = f"{request.url}\n{request.content.decode(errors='replace')}"
        part = self.credentials.part_in(said, named)
        if part is not None:
            # Only the beginning: the report must not show the credential either.
            raise CheckFailed("no part of a credential in an answer", f"{shown} shows {part[:4]}… of one")
        token = answer.data.get("token")
        if isinstance(token, str):
            self.credentials.add(token)
        return answer

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        bound = CHECK_TIMEOUT.get()
        if bound is not None and (when := bound.when()) is not None:
            bound.reschedule(when + seconds)
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Requests below one path, with one credential."""

    http: httpx2.AsyncClient
    traffic: Traffic
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
        """Make a request, as soon as the server's limits admit it; a body is sent as JSON, and `content` as it is."""
        made = self._build_request(method, path, body, query=query, headers=headers, content=content)
        return await self.traffic.send(self.http, made)

    async def request_once(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Make one request, for a check that wants to see or admits a 429."""
        made = self._build_request(method, path, body, query=query, headers=headers, content=content)
        return await self.traffic.send_once(self.http, made)

    def _build_request(
        self,
        method: str,
        path: str,
        body: object,
        *,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        content: bytes | None,
    ) -> httpx2.Request:
        sent = {"content-type": "application/json", **self.headers, **(headers or {})}
        raw = content if content is not None else None if body is None else json.dumps(body).encode()
        return self.http.build_request(
            method, f"{self.path}{path}", params=query, content=raw, headers={k: v for k, v in sent.items() if v}
        )


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
