"""Browsers at the console in this process, with a clock that tests move, and an issuer that refreshes tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.routing import Router

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.clock import ManualClock
from penstock.console.one_time_links import OneTimeLinks
from penstock.console.surface import console_routes
from penstock.operations.gate.context import ServerParts
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.tokens.choices import BrowserClient
from penstock.runtime.ports.issuers import (
    Fetched,
    GrantRefused,
    IssuerResponse,
    NotFetched,
    TokenRequest,
    TokenResponse,
)
from tests.issuers import AUDIENCE, PUBLIC_URL, Issuer, IssuerDirectory, signed
from tests.unit.operations.conftest import Caller

NOW = 1_760_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"


class _SigningIn(Issuer):
    def metadata(self) -> dict[str, Any]:
        return {
            **super().metadata(),
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "end_session_endpoint": f"{self.url}/logout",
            "revocation_endpoint": f"{self.url}/revoke",
        }


@dataclass
class Provider(IssuerDirectory):
    """An issuer that gives refresh tokens, each for one use."""

    issuers: list[Issuer] = field(default_factory=lambda: [_SigningIn()])
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    claims: dict[str, Any] = field(default_factory=dict)
    """Changed claims of the next access tokens."""
    seconds: int = 300
    gives_refresh_tokens: bool = True
    refuses: bool = False
    refreshed: int = 0
    nonces: dict[str, str] = field(default_factory=dict)
    id_claims: dict[str, Any] = field(default_factory=dict)
    """Changed claims of the next ID tokens."""
    takes_logouts: bool = True
    revoked: list[str] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    """The refresh tokens that were not used yet."""
    _numbers: Any = field(default_factory=lambda: count(1))

    def choices(self, **rules: Any) -> Any:
        browser = BrowserClient(
            client_id="console",
            client_secret=lambda: "secret",
            redirect_uri=f"{PUBLIC_URL}/console/sign-in/callback",
            signed_out_uri=f"{PUBLIC_URL}/console/sign-in",
            scopes=("execution:read",),
            resource=AUDIENCE,
            takes_logouts=self.takes_logouts,
            label="the company",
        )
        return super().choices(browser=browser, **rules)

    async def exchange(self, request: TokenRequest) -> TokenResponse:
        if self.is_down:
            return NotFetched("nobody is there")
        if self.refuses:
            return GrantRefused("invalid_grant")
        answer = self._access()
        if request.grant["grant_type"] == "refresh_token":
            self.refreshed += 1
            if request.grant["refresh_token"] not in self.valid:
                self.valid.clear()  # somebody has a copy
                return GrantRefused("invalid_grant")
            self.valid.discard(request.grant["refresh_token"])
        else:
            answer["id_token"] = self._id_token(self.nonces.pop(request.grant["code"]))
        if self.gives_refresh_tokens:
            answer["refresh_token"] = f"refresh-{next(self._numbers)}"
            self.valid.add(answer["refresh_token"])
        return Fetched(json.dumps(answer).encode())

    async def revoke(self, request: TokenRequest) -> IssuerResponse:
        if self.is_down:
            return NotFetched("nobody is there")
        self.valid.discard(request.grant["token"])
        self.revoked.append(request.grant["token"])
        return Fetched(b"")

    def logout_token(self, **changes: Any) -> str:
        """A token that says that somebody has signed out."""
        return self.issuers[0].logout_token(**{"aud": "console", **self._times(), **changes})

    def _times(self) -> dict[str, int]:
        now = self.clock.now_ms() // 1000
        return {"iat": now, "exp": now + self.seconds}

    def _access(self) -> dict[str, Any]:
        given = {"scope": "execution:read workflow:read", **self._times(), **self.claims}
        return {"access_token": self.issuers[0].token(**given), "token_type": "Bearer"}

    def _id_token(self, nonce: str) -> str:
        issuer = self.issuers[0]
        claims = issuer.claims(**{"aud": "console", "nonce": nonce, "scope": None, **self._times(), **self.id_claims})
        return signed({"alg": "RS256", "typ": "JWT", "kid": "company-RS256"}, claims, issuer.keys["company-RS256"])


@dataclass
class Answer:
    """What a browser got."""

    status: int
    headers: list[tuple[str, str]]
    body: str

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


@dataclass
class Process:
    """One process on the file: its gate, and its console."""

    gate: Gate
    penstock: Penstock
    router: Router
    links: OneTimeLinks

    @property
    def owner(self) -> Caller:
        return Caller(self.gate, local_owner(), self.penstock)

    async def audited(self, operation: str) -> list[dict[str, Any]]:
        """The audit records of an operation, newest first."""
        found: list[dict[str, Any]] = (await self.owner.call("audit.list", operation=operation))["items"]
        return found


@asynccontextmanager
async def a_process(folder: Path, provider: Provider) -> AsyncIterator[Process]:
    """Open the file as a server does."""
    server = ServerParts(tokens=provider.choices())
    async with (
        Penstock.open(folder / "penstock.db", clock=provider.clock, perform=False) as penstock,
        open_gate(penstock, server=server) as gate,
    ):
        links = OneTimeLinks(local_owner())
        yield Process(gate, penstock, Router(routes=console_routes(gate, links)), links)


@dataclass
class Browser:
    """Keeps its cookies, and follows no redirects."""

    process: Process
    jar: dict[str, str] = field(default_factory=dict)
    remote: str = "192.0.2.7"

    def copy(self, process: Process | None = None) -> Browser:
        """Somebody who has the cookies of this browser."""
        return Browser(process or self.process, dict(self.jar), "203.0.113.9")

    async def request(self, method: str, path: str, fields: dict[str, str] | None = None) -> Answer:
        place, body = urlsplit(path), b"" if fields is None else urlencode(fields).encode()
        headers = [
            (b"host", b"localhost"),
            (b"user-agent", FIREFOX.encode()),
            (b"cookie", "; ".join(f"{name}={value}" for name, value in self.jar.items()).encode()),
        ]
        if fields is not None:
            headers += [
                (b"content-type", b"application/x-www-form-urlencoded"),
                (b"origin", b"http://localhost"),
                (b"content-length", str(len(body)).encode()),
            ]
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": place.path,
            "raw_path": place.path.encode(),
            "root_path": "",
            "query_string": place.query.encode(),
            "headers": headers,
            "client": (self.remote, 40_000),
            "state": {"request_id": "r-1"},
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.process.router(scope, receive, send)
        found = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        for cookie in (value for name, value in found if name == "set-cookie"):
            name, _, rest = cookie.partition("=")
            value = rest.partition(";")[0]
            self.jar.pop(name, None) if not value else self.jar.update({name: value})
        return Answer(sent[0]["status"], found, b"".join(item.get("body", b"") for item in sent[1:]).decode())

    async def get(self, path: str = "/console/sessions") -> Answer:
        return await self.request("GET", path)

    async def post(self, path: str, **fields: str) -> Answer:
        return await self.request("POST", path, fields)

    async def sign_in(self, key: str) -> None:
        """Sign in with a key."""
        answer = await self.post("/console/sign-in", key=key)
        assert answer.status == 303, answer.body

    async def sign_in_at(self, provider: Provider) -> Answer:
        """Sign in at the issuer."""
        left = await self.get("/console/sign-in/with/company?to=/console")
        query = {name: values[0] for name, values in parse_qs(urlsplit(left.header("location")).query).items()}
        code = f"code-{query['state']}"
        provider.nonces[code] = query["nonce"]
        back = {"code": code, "state": query["state"], "iss": provider.issuers[0].url}
        answer = await self.get(f"/console/sign-in/callback?{urlencode(back)}")
        assert answer.status == 303, answer.body
        return answer

    async def is_in(self) -> bool:
        """Whether a page is shown."""
        answer = await self.get()
        assert answer.status in (200, 303), answer.body
        return answer.status == 200

    async def token(self) -> str:
        """The token in the forms of a page."""
        return (await self.get()).body.partition('name="form_token" value="')[2].partition('"')[0]

    async def sessions(self) -> list[str]:
        """The ids of the sessions on the page."""
        page = (await self.get()).body
        return [part.partition('"')[0] for part in page.split('name="session_id" value="')[1:]]
