"""Planting secrets in a real server: a recognisable one in every place that takes one.

Above it: `test_planted_secrets`, which searches for them. Below it: a server, an issuer of access tokens and an MCP
server with sign-in, all of them real.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.fixtures.oauth_server import OAuthWorld
from tests.issuers import AUDIENCE, PUBLIC_URL, Issuer
from tests.live.governed import UPSTREAM
from tests.live.mcp.broken_messages import META
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX, wait_until

__all__ = [
    "Planting",
    "key_server",
    "plant_input",
    "plant_keys",
    "plant_link",
    "plant_requests",
    "plant_runs",
    "plant_server_secrets",
    "plant_sign_in",
    "plant_tokens",
    "settings",
]

STEPS = """
from penstock import StepContext, step

@step(name="login")
async def login(token: str, *, context: StepContext) -> str:
    context.logger.info("signing in with %s", token)
    try:
        raise KeyError(token)
    except KeyError:
        context.logger.exception("this one has a traceback")
    raise ValueError(f"the other side refused {token}")

@step(name="use")
async def use(password: str) -> int:
    return len(password)
"""


def planted(name: str) -> str:
    """A secret that nothing else contains, with characters that texts escape."""
    return f"PLANTED-{name}-x7q/9Z"


@dataclass
class Planting:
    """A server, every secret that it was given, and every answer that it gave."""

    server: LiveServer
    secrets: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[str, bytes]] = field(default_factory=list)
    read: dict[str, bytes] = field(default_factory=dict)
    """What can be read of the server after everything was planted, by where it was read."""
    raw_secrets: dict[str, bytes] = field(default_factory=dict)
    """Secrets that are no text."""
    handles: list[str] = field(default_factory=list)
    """Names that only their owner can use, and that the file has."""
    server_files: list[str] = field(default_factory=list)
    """The files in which the server keeps its own secrets."""

    def plant(self, name: str) -> str:
        self.secrets[name] = planted(name)
        return self.secrets[name]

    def request(self, method: str, path: str, body: Any = None, *, shown_once: bool = False, **more: Any) -> Any:
        answer = self.server.request(method, path, body, **more)
        if not shown_once:
            head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
            self.answers.append((f"{method} {path[:60]}", head.encode() + answer.body))
        try:
            return answer.json()
        except ValueError:
            return None

    def raw(self, method: str, path: str, body: bytes, headers: dict[str, str], *, shown_once: bool = False) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SECONDS_MAX)
        with closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            head = "\n".join(f"{name}: {value}" for name, value in answer.getheaders())
            content = head.encode() + answer.read()
            if not shown_once:
                self.answers.append((f"{method} {path[:60]}", content))

    def mcp(self, method: str, key: str | None = None, *, shown_once: bool = False, **params: Any) -> Any:
        named = {"Mcp-Name": params["name"]} if "name" in params else {}
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": META, **params}}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **named,
        }
        return self.request("POST", "/mcp?toolset=all", body, headers=headers, key=key, shown_once=shown_once)


def document(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"penstock": "v1", "name": name, "nodes": [*nodes, {"id": "done", "type": "end"}], **more}


ANSWER = {"type": "object", "properties": {"password": {"type": "string", "writeOnly": True}}}
USES = {"id": "use", "type": "step", "handler": "use", "with": {"password": "${ .ask.password }"}}
ASKS = document("asks", {"id": "ask", "type": "interrupt", "message": "Password?", "answer": ANSWER}, USES)
SIGNS_IN = document(
    "signs_in",
    {"id": "login", "type": "step", "handler": "login", "with": {"token": "${secret:STEP_TOKEN}"}},
    secrets=["STEP_TOKEN"],
    expose={"tool": True},
)
CALLS = document(
    "calls",
    {
        "id": "call",
        "type": "http",
        "method": "GET",
        "url": "http://127.0.0.1:9/refused?key=${secret:QUERY_TOKEN}",
        "headers": {"Authorization": "Bearer ${secret:HTTP_TOKEN}"},
    },
    secrets=["HTTP_TOKEN", "QUERY_TOKEN"],
)
HOOKED = document(
    "hooked",
    secrets=["HOOK_SECRET"],
    triggers=[{"webhook": {"path": "hooked", "secret": "${secret:HOOK_SECRET}"}}],
)


SECRET_INPUT = {
    "type": "object",
    "required": ["password"],
    "properties": {"password": {"type": "string", "writeOnly": True, "maxLength": 60}},
}
TAKES = document(
    "takes",
    {"id": "use", "type": "step", "handler": "use", "with": {"password": "${ .input.password }"}},
    input=SECRET_INPUT,
    expose={"tool": True},
    triggers=[{"webhook": {"path": "takes"}, "input": {"password": "${ .body.password }"}}],
)
DANGEROUS = {**TAKES, "name": "dangerous", "governance": {"risk": "high"}, "expose": {}, "triggers": []}
ASKS_ON_PAGE = {**ASKS, "name": "asks_on_page", "expose": {"tool": True}}


def settings(folder: Path, plants: Planting, issuer: Issuer, world: OAuthWorld) -> dict[str, str]:
    """The secrets of the operator: in the environment, in a file of settings, and of other MCP servers."""
    (folder / "steps.py").write_text(STEPS, encoding="utf-8")
    (folder / "upstream.token").write_text(plants.plant("upstream"), encoding="utf-8")
    (folder / "penstock.yaml").write_text(
        json.dumps(
            {
                "steps": {"modules": ["steps.py"]},
                "secrets": {"UPSTREAM": {"file": "upstream.token"}},
                "mcp_servers": {
                    "closed": {
                        "url": "http://127.0.0.1:9/mcp",
                        "headers": {"Authorization": "Bearer ${secret:UPSTREAM}"},
                    },
                    UPSTREAM: {"url": world.url, "auth": {"type": "oauth"}, "import": {"tools": ["*"]}},
                },
                "auth": {
                    "oauth": {
                        "issuers": {
                            "company": {
                                "issuer": issuer.url,
                                "jwks_url": f"{issuer.url}/jwks",
                                "audience": [AUDIENCE],
                                "groups_claim": "groups",
                            }
                        }
                    }
                },
                "server": {"public_url": PUBLIC_URL},
            }
        ),
        encoding="utf-8",
    )
    named = {"STEP_TOKEN": "step", "HTTP_TOKEN": "http", "QUERY_TOKEN": "query", "HOOK_SECRET": "hook"}
    return {f"PENSTOCK_SECRET_{name}": plants.plant(plant) for name, plant in named.items()}


def plant_keys(plants: Planting) -> None:
    server = plants.server
    plants.secrets["owner key"] = server.key
    made = plants.request("POST", "keys", {"name": "made", "scopes": ["*"]}, shown_once=True)
    plants.secrets["made key"] = made["secret"]
    rotated = plants.request("POST", f"keys/{made['key']['id']}/rotate", {}, shown_once=True)
    plants.secrets["rotated key"] = rotated["secret"]
    plants.request("GET", "info", key=made["secret"])
    plants.request("GET", "keys", key=rotated["secret"])
    for number, wrong in enumerate((plants.plant("wrong-key"), f"pen_aaaaaaaaaaaa_{'w' * 38}WRONG")):
        plants.secrets[f"wrong key {number}"] = wrong
        plants.request("GET", "keys", key=wrong)
        plants.mcp("tools/list", key=wrong)
        plants.request("POST", "/v1/runs", {}, key=wrong)
        plants.request("GET", "/nothing/here", key=wrong)
        plants.request("POST", "/answer", f"key={wrong}".encode(), key="")
    basic = base64.b64encode(f"ada:{plants.plant('basic')}".encode()).decode()
    plants.secrets["basic header"] = basic
    plants.raw("GET", "/api/v0/keys", b"", {"Authorization": f"Basic {basic}"})


def plant_runs(plants: Planting) -> None:
    for workflow in (ASKS, SIGNS_IN, CALLS, HOOKED):
        made = plants.request("POST", "workflows", {"document": workflow})
        assert made is not None
        assert "hash" in made, made
    for name in ("signs_in", "calls"):
        ended = plants.request("POST", f"workflows/{name}/executions", {"sync": True, "execution_id": name})
        assert ended["status"] == "failed", ended
    plants.mcp("tools/call", name="signs_in", arguments={})
    plants.request("POST", "workflows/asks/executions", {"execution_id": "asks"})
    wait_until(lambda: plants.server.call("GET", "executions/asks")["waiting_for"]["questions"])
    [question] = plants.server.call("GET", "executions/asks")["waiting_for"]["questions"]
    wrong = {"interrupt_id": question["interrupt_id"], "answer": {"password": [plants.plant("wrong-answer")]}}
    plants.request("POST", "executions/asks/answers", wrong)
    given = {"interrupt_id": question["interrupt_id"], "answer": {"password": plants.plant("answer")}}
    answered = plants.request("POST", "executions/asks/answers", given)
    assert "status" in answered, answered
    wait_until(lambda: plants.server.call("GET", "executions/asks")["status"] == "completed")


def plant_requests(plants: Planting) -> None:
    key = plants.server.key
    token = plants.plant("userinfo")
    plants.request("POST", "webhooks", {"url": f"https://ada:{token}@hooks.example/in", "events": ["run.failed"]})
    plants.request("POST", "models", {"id": "m", "provider": "openai", "base_url": f"https://ada:{token}@api.example"})
    hook = plants.request(
        "POST", "webhooks", {"url": "https://hooks.example/in", "events": ["run.failed"]}, shown_once=True
    )
    assert "secret" in hook, hook
    plants.secrets["webhook secret"] = hook["secret"]
    plants.request("GET", "webhooks")
    plants.raw("POST", "/hooks/hooked", b"{}", {"X-Signature": plants.plant("signature")})
    plants.raw("POST", f"/hooks/{plants.plant('hook-path').replace('/', '')}", b"{}", {})
    plants.secrets["hook-path"] = plants.secrets["hook-path"].replace("/", "")
    bearer = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    plants.raw("POST", "/api/v0/workflows", f'{{"document": "{plants.plant("half-json")}'.encode(), bearer)
    plants.raw("GET", f"/api/v0/keys?api_key={plants.plant('query-string')}", b"", bearer)
    plants.raw("GET", "/api/v0/info", b"", {**bearer, "Cookie": f"session={plants.plant('cookie')}"})
    plants.raw("GET", "/api/v0/info", b"", {"X-API-Key": plants.plant("header")})
    plants.raw("POST", "/mcp", f'{{"jsonrpc":"2.0","id":1,"method":"{plants.plant("method")}"}}'.encode(), bearer)


def plant_tokens(plants: Planting, issuer: Issuer) -> None:
    """Access tokens of an issuer: one that is accepted, and some that are not."""
    tokens = {
        "good token": issuer.token(algorithm="ES256", scope="workflow:read system:read"),
        "expired token": issuer.token(algorithm="ES256", exp=1),
        "token of another audience": issuer.token(algorithm="ES256", aud="https://elsewhere.example"),
        "unsigned token": issuer.token(algorithm="ES256")[:-20],
        "revoked token": issuer.token(algorithm="ES256", jti="planted-jti"),
    }
    for name, token in tokens.items():
        # The first part is the same in all; the others are what makes each of them one.
        _, plants.secrets[f"claims of {name}"], plants.secrets[f"signature of {name}"] = token.split(".")
        plants.request("GET", "info", key=token)
        plants.mcp("tools/list", key=token)
        plants.request("POST", "/v1/runs", {}, key=token)
        plants.request("GET", f"workflows?access_token={token}")
    plants.request("POST", "tokens/revocations", {"issuer": "company", "token_id": "planted-jti"})
    refused = plants.request("GET", "info", key=tokens["revoked token"])
    assert refused["code"] == "TOKEN_REVOKED", refused
    accepted = plants.request("GET", "info", key=tokens["good token"])
    assert accepted["principal"].startswith("token:company:"), accepted


def plant_sign_in(plants: Planting, world: OAuthWorld) -> None:
    """The tokens of a sign-in to another MCP server, and everything that leads to them."""
    redirect = "http://127.0.0.1:40123/callback"
    path = f"upstreams/{UPSTREAM}/sign-in"
    # Whoever signs in is told where, once; the address has the state in it.
    begun = plants.request("POST", path, {"redirect_uri": redirect}, shown_once=True)
    page = httpx2.get(begun["authorization_url"], timeout=SECONDS_MAX)
    came_back = {name: values[0] for name, values in parse_qs(urlsplit(page.headers["location"]).query).items()}
    plants.secrets |= {f"sign-in {name}": came_back[name] for name in ("state", "code")}
    plants.request("POST", f"{path}/complete", {**came_back, "code": plants.plant("wrong-code")})
    begun = plants.request("POST", path, {"redirect_uri": redirect}, shown_once=True)
    page = httpx2.get(begun["authorization_url"], timeout=SECONDS_MAX)
    came_back = {name: values[0] for name, values in parse_qs(urlsplit(page.headers["location"]).query).items()}
    plants.secrets |= {f"second sign-in {name}": came_back[name] for name in ("state", "code")}
    done = plants.request("POST", f"{path}/complete", came_back)
    assert done["status"] == "signed_in", done
    plants.request("POST", f"{path}/complete", came_back)
    plants.request("POST", f"upstreams/{UPSTREAM}/refresh", {})
    (access,), (refresh,) = world.access, world.refresh
    plants.secrets |= {"access token": access, "refresh token": refresh}
    plants.secrets["code verifier"] = next(item["code_verifier"] for item in world.requests("token"))


def plant_input(plants: Planting) -> None:
    """Secret input, in every way to start a workflow and in what waits for approval."""
    for workflow in (TAKES, DANGEROUS, ASKS_ON_PAGE):
        made = plants.request("POST", "workflows", {"document": workflow})
        assert "hash" in made, made

    def given(name: str) -> dict[str, Any]:
        return {"password": plants.plant(name)}

    body = {"sync": True, "input": given("input")}
    ended = plants.request("POST", "workflows/takes/executions", body, headers={"Idempotency-Key": "once"})
    assert ended["status"] == "completed", ended
    plants.request("POST", "workflows/takes/executions", body, headers={"Idempotency-Key": "once"})
    plants.request("POST", "workflows/takes/executions", {"input": {"password": [plants.plant("wrong-input")]}})
    plants.request("POST", "workflows/takes/executions", {"input": {"password": plants.plant("long-" * 20)}})
    plants.mcp("tools/call", name="takes", arguments=given("tool-input"))
    plants.mcp("tools/call", name="takes", arguments={"password": [plants.plant("wrong-tool-input")]})
    execute = {"workflow_id": "takes", "input": given("operation-input")}
    plants.mcp("tools/call", name="penstock_workflow_execute", arguments=execute)
    sent = {"definition": {**TAKES, "name": "sent", "triggers": []}, "input": given("control-input")}
    plants.request("POST", "control/workflow_start", sent)
    plants.raw("POST", "/hooks/takes", json.dumps(given("hook-input")).encode(), {"Content-Type": "application/json"})
    plants.request("POST", "schedules", {"workflow_id": "takes", "cron": "0 3 * * *", "input": given("schedule-input")})
    robot = plants.request("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]}, shown_once=True)
    plants.secrets["agent key"] = robot["secret"]
    held = {"input": given("held-input")}
    draft = plants.request("POST", "workflows/dangerous/executions", held, key=robot["secret"])
    plants.request("GET", f"drafts/{draft['held']['draft_id']}")
    made = plants.request("POST", f"drafts/{draft['held']['draft_id']}/approve", {})
    assert made["status"] == "executed", made
    looked = {"operation": "workflow.execute", "arguments": {"workflow_id": "takes", "input": given("looked-input")}}
    seen = plants.request("POST", "preflights", looked, shown_once=True)
    assert seen["arguments"]["input"] == {"password": "***"}, seen
    # A handle is no secret: only its owner can use it. But nobody else has to see it.
    plants.handles.append(seen["preflight_id"])
    headers = {"Penstock-Preflight": seen["preflight_id"]}
    plants.request("POST", "workflows/takes/executions", {"input": given("preflighted-input")}, headers=headers)


def plant_link(plants: Planting) -> None:
    """The address of a page for an answer: whoever has it may answer."""
    capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    told = plants.mcp("tools/call", name="asks_on_page", arguments={}, _meta=meta, shown_once=True)
    [asked] = told["result"]["inputRequests"].values()
    link = urlsplit(asked["params"]["url"]).path
    plants.secrets["answer link"] = link.rpartition("/")[2]
    for method, content in (("GET", b""), ("POST", f"field.password={plants.plant('page-answer')}".encode())):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        plants.raw(method, link, content, form, shown_once=True)
    plants.raw("GET", f"{link[:-4]}AAAA", b"", {}, shown_once=True)


def plant_server_secrets(plants: Planting, folder: Path) -> None:
    """What the server keeps in files beside the database, for itself alone."""
    plants.request("POST", "audit/checkpoints", {})
    plants.request("GET", "audit/key")
    for name in ("penstock.db.audit-key", "penstock.db.secret"):
        content = (folder / name).read_bytes().strip()
        plants.secrets[name] = content.decode("ascii")
        plants.server_files.append(name)
    seed = bytes.fromhex(plants.secrets["penstock.db.audit-key"])
    plants.secrets["the seed in Base64"] = base64.b64encode(seed).decode().rstrip("=")
    plants.raw_secrets["the seed in bytes"] = seed


@contextmanager
def key_server() -> Iterator[Issuer]:
    """An issuer of access tokens that serves its keys on this machine."""
    issuer = Issuer(algorithms=("ES256",))

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(issuer.key_set()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *told: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS_MAX)
