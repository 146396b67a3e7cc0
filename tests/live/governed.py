"""What governance keeps for a tenant, made for real on a live server, and the ways in which others could ask for it.

Above it: `test_isolation`. Below it: a server whose settings know an issuer of tokens and an MCP server with sign-in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.fixtures.oauth_server import OAuthWorld, serving_oauth
from tests.live.console.visiting import cookie_of
from tests.live.mcp.broken_messages import META
from tests.live.rest.seeds import COUNT, Seeds
from tests.live.tenants import BODIES, Member
from tests.scenarios.office import ERASE
from tests.waiting import SECONDS_MAX

__all__ = [
    "ATTEMPTS",
    "ISSUER",
    "UNIQUE",
    "UPSTREAM",
    "govern",
    "mark_of",
    "oauth_world",
    "over_mcp",
    "sign_in",
    "what_is_there",
]

ISSUER = "company"
UPSTREAM = "shop"
# These ids exist once on a server: whoever knows one names what another tenant has, whatever they have themselves.
UNIQUE = (
    "key_id",
    "endpoint_id",
    "delivery_id",
    "draft_id",
    "hold_id",
    "grant_id",
    "console_session_id",
    "subject",
    "revocation_id",
)
_REDIRECT = "http://127.0.0.1:40123/callback"


def mark_of(tenant: str) -> str:
    """A text that is in everything of a tenant, and nowhere else."""
    return f"only-{tenant}-knows"


def policy_of(tenant: str) -> str:
    """A policy that never forbids anything."""
    return (
        f'@id("house-{tenant}") @description("{mark_of(tenant)}")\n'
        'forbid (principal is Agent, action in Action::"write", resource) when { context.time.hour > 24 };'
    )


# How a call that has no name in its path could reach another tenant: bodies that name what is not the caller's.
# `<name>` stands for what the other tenant has; an answer must be the same, but for that, if nobody had it.
ATTEMPTS: dict[str, list[dict[str, Any]]] = {
    "agent.create": [{"id": "helper", "model": "fast"}],
    "audit.checkpoint": [{}],
    "audit.hold": [{"reason": "mine", "principal": "<subject>"}],
    "audit.redact": [{"principal": "<subject>"}, {"subject": "erase_customer"}],
    "audit.rotate_key": [{}],
    "audit.verify": [{"all_tenants": True}, {"all_tenants": False}, {}],
    "backup.create": [{}],
    "control.workflow_list": [{}, {"definition_name": "erase_customer"}],
    "control.workflow_start": [{"definition": COUNT, "input": {"number": 1}, "execution_id": "done-1"}],
    "grant.create": [{"principal": "<subject>", "capabilities": ["workflow:erase_customer"], "expires_in": "1h"}],
    "key.create": [{"name": "k", "scopes": ["workflow:read"], "tenant": "<tenant>"}],
    "key.sign_out": [{"principal": "<subject>"}, {"principal": "key:<key_id>"}],
    "model.create": [{"id": "fast", "provider": "openai", "model": "m"}],
    "policy.check": [{"text": BODIES["policy.put"]["text"]}],
    "policy.explain": [
        {"action": "erase_customer", "arguments": {"customer": "C-1"}},
        {"action": "workflow.delete", "arguments": {"workflow_id": "erase_customer"}, "key": "<key_id>"},
        {"action": "execution.cancel", "arguments": {"execution_id": "<draft_id>"}},
    ],
    "policy.tools": [{}, {"key": "<key_id>"}],
    "policy.replay": [{"text": BODIES["policy.put"]["text"], "last": 500}],
    "preflight.run": [
        {"operation": "workflow:erase_customer", "arguments": {"input": {"customer": "C-1"}}},
        {"operation": "workflow.execute", "arguments": {"workflow_id": "erase_customer", "input": {"customer": "C"}}},
        {"operation": "execution.cancel", "arguments": {"execution_id": "<draft_id>"}},
        {"operation": "grant.delete", "arguments": {"grant_id": "<grant_id>"}},
        {"operation": "workflow.delete", "arguments": {"workflow_id": "erase_customer"}},
    ],
    "schedule.preview": [{"cron": "0 3 * * *"}],
    "task.execute": [{"workflow_id": "erase_customer", "task_id": "done"}],
    "graph.create": [{"id": "people", "schema": "node Person { name: String @key }"}],
    "schema.create": [{"id": "order", "schema": {}}],
    "token.revoke": [
        {"issuer": ISSUER, "subject": "<mark>-eve"},
        {"issuer": ISSUER, "subject": "somebody", "tenant": "<tenant>"},
    ],
    "tool.create": [{"id": "search", "name": "search", "kind": "mcp", "server": "files"}],
    "webhook.create": [{"url": "https://example.com/mine", "workflows": ["erase_customer"]}],
    "workflow.create": [{"document": COUNT}],
    "workflow.import": [{"workflows": [COUNT], "overwrite": True}],
    "workflow.validate": [{"document": {**COUNT, "name": "erase_customer"}}],
}


def govern(owner: Member, tenant: str) -> Seeds:
    """Give a tenant one of everything that governance keeps, made by its owner and by an agent of it."""
    mark = mark_of(tenant)
    owner.call("POST", "workflows", {"document": {**ERASE, "description": mark}})
    made = owner.call("POST", "keys", {"name": mark, "kind": "agent", "scopes": ["*"]})
    agent, agent_id = Member(owner.server, made["secret"]), f"key:{made['key']['id']}"

    def held(customer: str) -> str:
        answer = agent.request("POST", "workflows/erase_customer/executions", {"input": {"customer": customer}})
        assert answer.status == 202, answer
        draft_id: str = answer.json()["held"]["draft_id"]
        return draft_id

    waiting, rejected = held(mark), held(f"{mark} no more")
    owner.call("POST", f"drafts/{rejected}/reject", {"note": mark})
    hold = owner.call("POST", "audit/holds", {"reason": mark, "principal": agent_id})
    granted = {"principal": agent_id, "capabilities": ["workflow:erase_customer"], "expires_in": "2h", "note": mark}
    grant = owner.call("POST", "grants", granted)
    wanted = {
        "operation": "workflow.execute",
        "arguments": {"workflow_id": "erase_customer", "input": {"customer": mark}},
    }
    preflight = owner.call("POST", "preflights", wanted)
    owner.call("PUT", "policies/house", {"text": policy_of(tenant)})
    owner.call("PUT", f"quotas/{agent_id}", {"runs_per_day": 4711})
    revoked = owner.call("POST", "tokens/revocations", {"issuer": ISSUER, "subject": f"{mark}-eve", "reason": mark})
    cookie_of(owner.server, owner.key)
    [session] = owner.call("GET", "console-sessions")["items"]
    checkpoint = owner.call("POST", "audit/checkpoints", {})
    return Seeds(
        console_session_id=[session["id"]],
        draft_id=[waiting, rejected],
        hold_id=[hold["hold_id"]],
        grant_id=[grant["id"]],
        preflight_id=[preflight["preflight_id"]],
        policy_id=["house"],
        subject=[agent_id],
        revocation_id=[revoked["id"]],
        seq=[checkpoint["size"]],
    )


def sign_in(operator: Member) -> Seeds:
    """Sign in to the other MCP server, as a person would; only the default tenant can."""
    begun = operator.call("POST", f"upstreams/{UPSTREAM}/sign-in", {"redirect_uri": _REDIRECT})
    page = httpx2.get(begun["authorization_url"], timeout=SECONDS_MAX)
    came_back = {name: values[0] for name, values in parse_qs(urlsplit(page.headers["location"]).query).items()}
    done = operator.call("POST", f"upstreams/{UPSTREAM}/sign-in/complete", came_back)
    assert done["status"] == "signed_in", done
    return Seeds(server=[UPSTREAM], tool=["add"])


@contextmanager
def oauth_world() -> Iterator[OAuthWorld]:
    """An MCP server that wants a sign-in, in a thread of its own, until the block ends."""
    world, ready, loop = OAuthWorld(), threading.Event(), asyncio.new_event_loop()
    ended: Any = asyncio.Event()

    async def serve() -> None:
        async with serving_oauth(world):
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(SECONDS_MAX)
    try:
        yield world
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(SECONDS_MAX)
        loop.close()


def what_is_there(owner: Member, seeds: Seeds) -> dict[str, Any]:
    """Everything that could have been changed."""
    paths = [f"workflows/{name}" for name in seeds["workflow_id"]]
    paths += [
        f"executions/{name}{part}"
        for name in seeds["execution_id"]
        for part in ("", "/history?limit=500", "/notifications")
    ]
    paths += [f"schedules/{name}" for name in seeds["schedule_id"]]
    paths += [f"webhooks/{name}" for name in seeds["endpoint_id"]]
    for kind in ("schema", "model", "tool", "agent"):
        paths += [f"{kind}s/{name}" for name in seeds[f"{kind}_id"]]
    paths += [
        f"graphs/{name}/{part}" for name in seeds["graph_id"] for part in ("schema", "branches", "export", "commits")
    ]
    paths += [*(f"keys/{name}" for name in seeds["key_id"]), "executions?limit=500", "schedules", "triggers"]
    paths += [f"drafts/{name}" for name in seeds["draft_id"]]
    paths += ["drafts?limit=500", "grants", "audit/holds", "policies", "quotas", "tokens/revocations", "webhooks"]
    paths += ["console-sessions", "console-sessions?everybody=true"]
    found = {path: owner.call("GET", path) for path in paths}
    quotas = [owner.call("GET", f"quotas/{name}") for name in (*seeds["subject"], "tenant")]
    found["quotas of each"] = [{**quota, "used": None} for quota in quotas]
    found["checkpoints"] = owner.call("GET", "audit/checkpoints?limit=500")["items"][-1]
    found["sign-ins"] = [(item["server"], item["sign_in"]) for item in owner.call("GET", "upstreams")["items"]]
    # Later reads are counted in earlier records, so these are compared by what they are about.
    (last,) = seeds["seq"]
    trail = owner.call("GET", "audit/export?limit=500")["items"][:last]
    found["audit"] = [(item["seq"], item["operation"], item["principal"], item["subject"]) for item in trail]
    return found


def over_mcp(who: Member, operation: str, arguments: dict[str, Any]) -> tuple[int, str]:
    """What an assistant of somebody is answered."""
    tool = f"penstock_{operation.replace('.', '_')}"
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    answer = who.server.request("POST", "/mcp?toolset=all", body, key=who.key, headers=headers)
    return answer.status, answer.body.decode()
