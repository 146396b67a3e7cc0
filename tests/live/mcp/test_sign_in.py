"""Signing in for real: an authorization server that others wrote, clients that others wrote, and our server between."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from penstock.operations.gate.tokens.protected_resource import BASIC_SCOPES
from tests.conformance.mcp_suite.node import node_programs
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX
from tests.zygote import run_command

pytestmark = pytest.mark.anyio

PROVIDER = Path(__file__).parents[2] / "fixtures" / "oidc_provider.mjs"
TYPESCRIPT = Path(__file__).with_name("typescript_sign_in.mjs")
CLIENT = "https://client.example/metadata.json"
REDIRECT = "http://127.0.0.1/callback"
SCOPES = list(BASIC_SCOPES)
REDIRECTS_MAX = 20


@contextmanager
def authorization_server() -> Iterator[str]:
    """An authorization server on this machine: its issuer."""
    programs = node_programs()
    process = subprocess.Popen(
        [programs.command, str(PROVIDER), str(programs.modules)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        issuer = ""
        while not issuer.startswith("http://"):
            line = process.stdout.readline()
            assert line, "the authorization server did not start"
            issuer = line.decode().strip()
        yield issuer
    finally:
        process.kill()
        process.wait(SECONDS_MAX)
        if process.stdout is not None:
            process.stdout.close()


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and the issuer that it trusts."""

    server: LiveServer
    issuer: str

    @property
    def url(self) -> str:
        return f"{self.server.url}/mcp"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server that trusts an authorization server, with the workflows."""
    folder = tmp_path_factory.mktemp("signing-in")
    for document in ALL:
        (folder / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with authorization_server() as issuer:
        settings = {
            "PENSTOCK_SERVER_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "PENSTOCK_AUTH_OAUTH_ISSUERS": json.dumps({"oidc": {"issuer": issuer}}),
        }
        server = LiveServer(folder, settings=settings, port=port)
        server.start("--workflows", ".")
        try:
            yield Place(server, issuer)
        finally:
            server.kill()


async def browse(address: str) -> dict[str, list[str]]:
    """Follow an authorization as a browser would, up to the client's own address: what it is told there."""
    async with httpx2.AsyncClient(timeout=SECONDS_MAX) as browser:
        for _ in range(REDIRECTS_MAX):
            answer = await browser.get(address)
            assert "location" in answer.headers, f"{address}: {answer.status_code} {answer.text}"
            address = urljoin(address, answer.headers["location"])
            if address.startswith(REDIRECT):
                return parse_qs(urlsplit(address).query)
    raise AssertionError("too many redirects")


@dataclass(slots=True)
class Person:
    """Somebody with a client: keeps its tokens, and has its browser."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    told: dict[str, list[str]] = field(default_factory=dict)

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def redirected(self, address: str) -> None:
        self.asked.append(parse_qs(urlsplit(address).query))
        self.told = await browse(address)

    async def called_back(self) -> AuthorizationCodeResult:
        one = {name: values[0] for name, values in self.told.items()}
        return AuthorizationCodeResult(code=one["code"], state=one.get("state"), iss=one.get("iss"))

    def auth(self, url: str) -> OAuthClientProvider:
        metadata = OAuthClientMetadata(
            client_name="python", redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none"
        )
        return OAuthClientProvider(url, metadata, self, self.redirected, self.called_back, client_metadata_url=CLIENT)

    @asynccontextmanager
    async def connected(self, server: str, url: str, era: str) -> AsyncIterator[Client]:
        """Their client, signed in at the server when it is told to."""
        async with (
            httpx2.AsyncClient(auth=self.auth(server), timeout=SECONDS_MAX) as http,
            Client(streamable_http_client(url, http_client=http), mode=era) as client,
        ):
            yield client


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_the_python_client_signs_in_and_calls_a_tool(place: Place, era: str) -> None:
    person = Person()
    async with person.connected(place.url, place.url, era) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("greet", {"name": "Ada"})
    assert {"greet", "penstock_execution_cancel"} <= tools
    assert result.structured_content is not None
    assert result.structured_content["output"] == {"text": "Hello, Ada"}
    (asked,) = person.asked
    assert asked["client_id"] == [CLIENT]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["resource"] == [place.url]
    assert asked["scope"][0].split()[: len(SCOPES)] == SCOPES  # clients may add offline_access
    run = place.server.call("GET", f"executions/{result.structured_content['execution_id']}")
    assert run["started_by"]["principal"] == "token:oidc:ada"


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_typescript_client_signs_in_and_calls_a_tool(place: Place, era: str) -> None:
    programs = node_programs()
    done = subprocess.run(
        [programs.command, str(TYPESCRIPT), str(programs.modules), era, place.url],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert (got["client"], got["resource"], got["method"]) == (CLIENT, place.url, "S256")
    assert got["scope"].split()[: len(SCOPES)] == SCOPES
    assert "greet" in got["tools"]
    assert got["greeted"]["structuredContent"]["output"] == {"text": "Hello, Ada"}


async def test_a_client_asks_for_the_scope_that_a_call_needs(place: Place) -> None:
    person, url = Person(), f"{place.url}?toolset=management"
    document = {"penstock": "v1", "name": "made_by_ada", "nodes": [{"id": "done", "type": "end"}]}
    async with person.connected(place.url, url, "2026-07-28") as client:
        await client.list_tools()
        made = await client.call_tool("penstock_workflow_create", {"document": document})
    assert not made.is_error
    first, second = person.asked
    assert "workflow:write" not in first["scope"][0].split()
    assert "workflow:write" in second["scope"][0].split()


async def test_the_id_token_of_the_same_person_opens_nothing(place: Place) -> None:
    verifier = "v" * 64
    digest = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "client_id": CLIENT,
        "redirect_uri": REDIRECT,
        "response_type": "code",
        "scope": "openid workflow:read",
        "resource": place.url,
        "code_challenge": digest,
        "code_challenge_method": "S256",
        "nonce": "n-1",
    }
    told = await browse(str(httpx2.URL(f"{place.issuer}/auth", params=query)))
    form = {
        "grant_type": "authorization_code",
        "code": told["code"][0],
        "redirect_uri": REDIRECT,
        "client_id": CLIENT,
        "code_verifier": verifier,
        "resource": place.url,
    }
    async with httpx2.AsyncClient(timeout=SECONDS_MAX) as http:
        tokens = (await http.post(f"{place.issuer}/token", data=form)).json()
        for name, status in (("access_token", 200), ("id_token", 401)):
            answer = await http.get(
                f"{place.server.url}/api/v0/workflows", headers={"Authorization": f"Bearer {tokens[name]}"}
            )
            assert answer.status_code == status, (name, answer.text)


async def test_a_client_that_signs_in_for_itself_is_a_service(place: Place) -> None:
    form = {"grant_type": "client_credentials", "resource": place.url, "scope": "workflow:read workflow:run"}
    async with httpx2.AsyncClient(timeout=SECONDS_MAX) as http:
        got = (await http.post(f"{place.issuer}/token", data=form, auth=("nightly", "not a secret"))).json()
        headers = {"Authorization": f"Bearer {got['access_token']}"}
        started = await http.post(
            f"{place.server.url}/api/v0/workflows/greet/executions", json={"input": {"name": "Ada"}}, headers=headers
        )
    assert started.status_code == 202, started.text
    run = place.server.call("GET", f"executions/{started.json()['execution_id']}")
    assert (run["started_by"]["principal"], run["started_by"]["principal_kind"]) == ("token:oidc:nightly", "service")


def test_the_doctor_walks_the_chain(place: Place, tmp_path: Path) -> None:
    done = run_command(
        ["mcp", "doctor", "--url", place.url, "--json"],
        folder=tmp_path,
        environment=dict(os.environ),
        timeout_seconds=SECONDS_MAX,
    )
    checks = {check["name"]: check["status"] for check in json.loads(done.stdout)["checks"]}
    assert {name: checks[name] for name in ("resource", "issuer", "keys", "register", "scopes")} == {
        "resource": "ok",
        "issuer": "ok",
        "keys": "ok",
        "register": "ok",
        "scopes": "ok",
    }
