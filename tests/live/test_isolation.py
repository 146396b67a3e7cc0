"""Tenants on a live server: whatever somebody of another tenant asks, nothing of a tenant is seen, named or changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.live.governed import (
    ATTEMPTS,
    ISSUER,
    UNIQUE,
    UPSTREAM,
    govern,
    mark_of,
    oauth_world,
    over_mcp,
    sign_in,
    what_is_there,
)
from tests.live.rest.seeds import APPROVE, SIGNALLED, Seeds, seed
from tests.live.rest.servers import Answer, LiveServer, serving
from tests.live.tenants import BODIES, NUMBERS, Member, Operation, member, operations, requests_about
from tests.scenarios.office import ERASE

UNUSED = "nobody-has-this"
# A tenant that the settings let use the other MCP server.
GUEST = "guest"
# These are about the caller's own tenant whatever they name; some of them make what they name there.
OWN_ANSWERS = ("workflow.executions", "policy.put", "policy.delete", "quota.get", "quota.set", "quota.reset")
CUSTOMER = {"input": {"customer": "C-1"}}
# A call that waits for a person has an id, a digest and an end of its own.
VARIES = re.compile(r"r_[0-9A-Z]{26}|[0-9a-f]{64}|20\d\d-[0-9T:.-]+Z")
MADE_FIRST = ("policy.put", "policy.delete", "quota.reset")
# Who is attacked, and by whom: the default tenant is no less a tenant than the others.
PAIRS = [("default", "mallory"), ("acme", "mallet"), ("acme", "default")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that trusts an issuer of tokens, and uses an MCP server that somebody signs in to."""
    with oauth_world() as world:
        shop = {
            "url": world.url,
            "auth": {"type": "oauth"},
            "import": {"tools": ["*"], "accept": "first", "tenants": ["default", GUEST]},
        }
        settings = {
            "PENSTOCK_SERVER_PUBLIC_URL": "https://flows.example",
            "PENSTOCK_AUTH_OAUTH_ISSUERS": json.dumps({ISSUER: {"issuer": "https://login.example"}}),
            "PENSTOCK_MCP_SERVERS": json.dumps({UPSTREAM: shop}),
        }
        with serving(tmp_path_factory.mktemp("server"), **settings) as running:
            yield running


@pytest.fixture(scope="module")
def catalogue(server: LiveServer) -> list[Operation]:
    return operations(server)


@pytest.fixture(scope="module")
def seeded(server: LiveServer) -> dict[str, tuple[Member, Seeds]]:
    """Two tenants that have one of everything."""
    found = {}
    for tenant in ("default", "acme"):
        owner = member(server, tenant, name="owner")
        found[tenant] = (owner, Seeds(seed(owner.call) | govern(owner, tenant)))
    owner, seeds = found["default"]
    found["default"] = (owner, Seeds(seeds | sign_in(owner)))
    return found


def anonymous(answer: Answer, *names: str) -> tuple[int, str]:
    """An answer without the ids that the question named, and without what differs from request to request."""
    body = answer.json()
    for name in ("request_id", "instance"):
        body.pop(name, None)
    text = json.dumps(body, sort_keys=True)
    for name in names:
        text = text.replace(name, "<id>")
    return answer.status, text


def test_every_operation_about_something_that_exists_is_tried(catalogue: list[Operation]) -> None:
    missing = [
        item.name
        for item in catalogue
        if item.about is not None and item.method not in ("GET", "DELETE") and item.name not in BODIES
    ]
    assert missing == [], "give these a body in tests/live/tenants.py"


def test_everything_that_can_be_named_is_seeded_and_everything_else_is_tried_by_other_ways(
    catalogue: list[Operation], seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    named = {name for item in catalogue for name in item.path_names}
    assert named <= seeded["default"][1].keys(), "seed these in tests/live/governed.py or tests/live/rest/seeds.py"
    nameless = {item.name for item in catalogue if item.about is None and not item.path_names}
    lists = {item.name for item in catalogue if item.method == "GET"}
    assert nameless - lists == ATTEMPTS.keys(), "say in ATTEMPTS how these could reach another tenant"


@pytest.mark.parametrize(("tenant", "other"), PAIRS)
def test_what_another_tenant_has_looks_like_what_nobody_has_and_stays_as_it_is(
    server: LiveServer,
    catalogue: list[Operation],
    seeded: dict[str, tuple[Member, Seeds]],
    tenant: str,
    other: str,
) -> None:
    owner, seeds = seeded[tenant]
    # Whoever owns everything in the default tenant is the operator, who may handle the keys of all tenants.
    scopes = [scope for item in catalogue for scope in item.scopes]
    stranger = member(server, other, *sorted(set(scopes)), name="stranger")
    if other == "default":
        # It has things of the same names; but it may know how those of others are stored.
        stored = ("execution_id", "schedule_id", "draft_id")
        guessed = {name: [f"{tenant}~.{item}" for item in seeds[name]] for name in stored}
        seeds = Seeds(seeds | guessed | {"draft_id": [*seeds["draft_id"], *guessed["draft_id"]]})
    before = what_is_there(owner, seeded[tenant][1])
    tried = 0
    for operation in catalogue:
        if other == "default" and operation.about not in ("execution_id", "schedule_id", *UNIQUE):
            continue
        for name, (method, path, body) in requests_about(operation, seeds):
            answer = stranger.request(method, path, body)
            text = json.dumps(body).replace(name, UNUSED)
            missing = stranger.request(method, path.replace(name, UNUSED, 1), json.loads(text))
            if operation.name not in MADE_FIRST:
                assert anonymous(answer, name, UNUSED) == anonymous(missing, name, UNUSED), operation.name
            assert mark_of(tenant).encode() not in answer.body, operation.name
            if operation.name == "workflow.executions":
                assert answer.json()["items"] == []
            if operation.name not in OWN_ANSWERS:
                assert answer.status in (404, 409, 422), (operation.name, answer)
            tried += 1
    assert tried > len(catalogue) / 3
    assert what_is_there(owner, seeded[tenant][1]) == before


@pytest.mark.parametrize(("tenant", "other"), [("default", "eve"), ("acme", "eve")])
def test_lists_searches_and_counts_have_nothing_of_another_tenant(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]], tenant: str, other: str
) -> None:
    stranger = member(server, other, name="stranger")
    _, seeds = seeded[tenant]
    execution = seeds["execution_id"][0]
    for path in (
        "workflows",
        "workflows?prefix=c",
        "executions",
        f"executions?parent_id={execution}",
        f"executions?parent_id={tenant}~.{execution}",
        f"executions?text={execution}",
        "executions?label=team%3Dred",
        "executions?workflow_id=count",
        "workflows/count/executions",
        "schedules",
        "schedules?workflow_id=count",
        "schemas",
        "models",
        "tools",
        "agents",
        "webhooks",
        "triggers",
        "console-sessions?everybody=true",
    ):
        items = stranger.call("GET", path)["items"]
        # Agents of the settings are the server's, for everybody.
        assert [item for item in items if item.get("source") != "settings"] == [], path
    assert stranger.call("GET", "workflows/export")["workflows"] == []
    assert stranger.call("POST", "control/workflow_list", {})["executions"] == []
    assert {item["tenant"] for item in stranger.call("GET", "keys")["items"]} == {other}
    assert stranger.request("DELETE", f"executions/{execution}").status == 404
    seen = stranger.call("GET", "audit?limit=500&operation=execution.delete")["items"]
    assert stranger.call("GET", "info")["principal"] in {item["principal"] for item in seen}
    assert {item["outcome"] for item in seen} == {"refused"}
    assert stranger.call("GET", "audit/export")["tenant"] == other
    assert stranger.call("POST", "audit/verify", {})["intact"] is True


@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_what_another_tenant_has_looks_like_what_nobody_has_over_mcp(
    server: LiveServer, catalogue: list[Operation], seeded: dict[str, tuple[Member, Seeds]], tenant: str
) -> None:
    owner, seeds = seeded[tenant]
    stranger = member(server, "oscar", name="stranger")
    before = what_is_there(owner, seeds)
    offered = set()
    for operation in catalogue:
        about = operation.about
        if about is None or not seeds.get(about):
            continue
        fixed = {name: str(seeds[name][0]) for name in operation.path_names} | BODIES.get(operation.name, {})
        for name in map(str, seeds[about][:2]):
            status, told = over_mcp(stranger, operation.name, {**fixed, about: name})
            missing = over_mcp(stranger, operation.name, {**fixed, about: UNUSED})
            shown = [VARIES.sub("", text.replace(name, "").replace(UNUSED, "")) for text in (told, missing[1])]
            assert (status, shown[0]) == (missing[0], shown[1]), told
            assert mark_of(tenant) not in told
            if "Unknown tool" not in told:
                offered.add(operation.name)
    assert len(offered) > 40, offered
    assert {"draft.get", "draft.approve", "draft.cancel", "quota.get"} <= offered
    assert what_is_there(owner, seeds) == before


@pytest.mark.parametrize(("tenant", "other"), [pair for pair in PAIRS if pair[1] != "default"])
def test_the_memory_of_a_tenant_is_not_that_of_another(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]], tenant: str, other: str
) -> None:
    owner, _ = seeded[tenant]
    stranger = member(server, other, "memory:*", name="stranger")
    assert stranger.request("GET", "memory/tenant/entries/tone").status == 404
    assert stranger.request("DELETE", "memory/tenant/entries/tone").status == 404
    assert stranger.call("GET", "memory/tenant/entries")["items"] == []
    assert stranger.call("GET", "memory/tenant/search?text=formal")["items"] == []
    assert stranger.call("DELETE", "memory/tenant/entries")["erased"] == 0
    assert owner.call("GET", "memory/tenant/entries/tone")["value"] == "formal"


NOT_THEIRS = ("audit.rotate_key", "backup.create", "key.create")


@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_names_in_a_body_reach_nothing_of_another_tenant(
    server: LiveServer, catalogue: list[Operation], seeded: dict[str, tuple[Member, Seeds]], tenant: str
) -> None:
    owner, seeds = seeded[tenant]
    stranger = member(server, f"trudy-{tenant}", name="stranger")
    before = what_is_there(owner, seeds)
    values = {f"<{name}>": str(found[0]) for name, found in seeds.items() if found}
    values |= {"<tenant>": tenant, "<mark>": mark_of(tenant)}
    by_name = {item.name: item for item in catalogue}
    for name, bodies in ATTEMPTS.items():
        for body in bodies:
            theirs = nobodys = json.dumps(body)
            for place, value in values.items():
                theirs, nobodys = theirs.replace(place, value), nobodys.replace(place, UNUSED)
            answer = stranger.request(by_name[name].method, by_name[name].path.removeprefix("/"), theirs.encode())
            missing = stranger.request(by_name[name].method, by_name[name].path.removeprefix("/"), nobodys.encode())
            if theirs != nobodys:
                assert (answer.status, answer.json().get("code")) == (missing.status, missing.json().get("code")), name
            if name in NOT_THEIRS or '"tenant"' in theirs:
                assert answer.status == 403, (name, answer)
            # What was sent comes back; nothing else of the tenant does.
            assert mark_of(tenant) not in answer.body.decode().replace(f"{mark_of(tenant)}-eve", ""), (name, answer)
            if name == "audit.redact":
                assert answer.json()["erased"] == 0
    assert what_is_there(owner, seeds) == before
    assert owner.call("POST", "audit/verify", {"all_tenants": False})["intact"] is True


@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_no_list_has_anything_of_another_tenant(
    server: LiveServer, catalogue: list[Operation], seeded: dict[str, tuple[Member, Seeds]], tenant: str
) -> None:
    owner, seeds = seeded[tenant]
    stranger = member(server, "walter", name="stranger")
    ids = {str(item) for name in (*UNIQUE, "preflight_id") for item in seeds[name]}
    own_lists = 0
    for operation in catalogue:
        if operation.method != "GET" or operation.path_names or operation.name == "execution.changes":
            continue  # a stream that never ends has a test of its own
        path = operation.path.removeprefix("/")
        query = "?from_size=1" if operation.name == "audit.consistency" else ""
        told = stranger.request("GET", path + query).body.decode()
        assert mark_of(tenant) not in told, (operation.name, told[:500])
        assert not [item for item in ids if item in told], operation.name
        shown = owner.request("GET", path + query).body.decode()
        own_lists += mark_of(tenant) in shown or any(item in shown for item in ids)
    # The same lists do have it for its owner, or nothing was tested.
    assert own_lists >= 10


def test_a_preflight_or_grant_of_another_tenant_lets_nobody_act_alone(tmp_path: Path) -> None:
    with serving(tmp_path, PENSTOCK_GOVERNANCE_PRESET="strict") as server:
        agents, handles = {}, {}
        for tenant in ("acme", "mallory"):
            owner = member(server, tenant, name="owner")
            owner.call("POST", "workflows", {"document": ERASE})
            made = owner.call("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})
            agents[tenant] = (owner, Member(server, made["secret"]), f"key:{made['key']['id']}")
            wanted = {"operation": "workflow.execute", "arguments": {"workflow_id": "erase_customer", **CUSTOMER}}
            handles[tenant] = agents[tenant][1].call("POST", "preflights", wanted)["preflight_id"]

        def grant(tenant: str, agent: str) -> None:
            names = ["workflow:erase_customer", "workflow.execute"]
            body = {"principal": agent, "capabilities": names, "expires_in": "1h", "high_risk": True}
            agents[tenant][0].call("POST", "grants", body)

        def attempt(tenant: str, handle: str, number: int) -> Answer:
            said = {"Penstock_Preflight": handle, "Penstock_Justification": "asked", "Idempotency_Key": f"k{number}"}
            path = "workflows/erase_customer/executions"
            return agents[tenant][1].request("POST", path, CUSTOMER, **said)

        grant("mallory", agents["mallory"][2])
        grant("mallory", agents["acme"][2])  # their agent, by its name: a grant counts in its own tenant
        unknown = "pfl_0000000000000_01KA4T8R9B6S3VQ2XHJ7M5N0PE"
        told = [anonymous(attempt("mallory", handle, n), handle) for n, handle in enumerate((handles["acme"], unknown))]
        assert told[0] == told[1]
        assert "PREFLIGHT_NOT_FOUND" in told[0][1]
        assert attempt("acme", handles["acme"], 3).json()["status"] == "waiting_approval"
        assert attempt("mallory", handles["mallory"], 4).json()["status"] == "completed"
        grant("acme", agents["acme"][2])
        wanted = {"operation": "workflow.execute", "arguments": {"workflow_id": "erase_customer", **CUSTOMER}}
        handle = agents["acme"][1].call("POST", "preflights", wanted)["preflight_id"]
        assert attempt("acme", handle, 5).json()["status"] == "completed"


def test_a_number_of_a_record_is_one_of_the_callers_own_trail(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    assert NUMBERS == ("seq",)
    owner, seeds = seeded["acme"]
    stranger = member(server, "victor", name="stranger")
    who = stranger.call("GET", "info")["principal"]
    stranger.call("POST", "schemas", {"id": "own", "schema": {}})
    (last,) = seeds["seq"]
    assert stranger.request("GET", f"audit/records/{last}/proof").status == 404
    size = stranger.call("POST", "audit/checkpoints", {})["size"]
    assert size < last, "the trail of the other tenant is longer"
    for seq in range(1, last + 1):
        answer = stranger.request("GET", f"audit/records/{seq}/proof?size={size}")
        if answer.status == 200:
            proof = answer.json()
            assert (proof["tenant"], proof["record"]["principal"]) == ("victor", who)
        else:
            assert (seq > size, answer.status) == (True, 404)
    for path in (f"audit/records/1/proof?size={last}", f"audit/consistency?from_size={last}"):
        assert stranger.request("GET", path).json()["code"] == "AUDIT_CHECKPOINT_NOT_FOUND"
    assert owner.call("GET", f"audit/records/{last}/proof?size={last}")["tenant"] == "acme"


def test_whoever_may_use_another_server_does_not_see_who_signed_in_to_it(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    operator, _ = seeded["default"]
    guest = member(server, GUEST, name="guest")
    [mine] = operator.call("GET", "upstreams")["items"]
    assert mine["sign_in"]["signed_in_by"] == operator.call("GET", "info")["principal"]
    [theirs] = guest.call("GET", "upstreams")["items"]
    told = {name: value for name, value in theirs["sign_in"].items() if value}
    assert told == {"server": UPSTREAM, "status": "signed_in"}
    for method, path in (("POST", "sign-in"), ("POST", "sign-in/complete"), ("DELETE", "sign-in")):
        body = {"redirect_uri": "http://127.0.0.1:1/x"} if path == "sign-in" else {"state": "s", "code": "c"}
        answer = guest.request(method, f"upstreams/{UPSTREAM}/{path}", None if method == "DELETE" else body)
        assert (answer.status, answer.json()["code"]) == (404, "UPSTREAM_NOT_FOUND")
    assert operator.call("GET", "upstreams")["items"][0]["sign_in"]["status"] == "signed_in"


def test_how_the_server_does_as_a_whole_is_for_the_default_tenant(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    operator, tenant = seeded["default"][0], member(server, "ivan", "system:read", "workflow:*", name="reader")
    assert len(operator.call("GET", "metrics")["metrics"]) > 50
    assert set(operator.call("GET", "health")["checks"]) >= {"store", "runs"}
    tenant.call("POST", "workflows", {"document": SIGNALLED})
    tenant.call("POST", "workflows/signalled/executions", {})
    own = tenant.call("GET", "metrics")["metrics"]
    assert {name.partition("_tenant_")[0] for name in own} == {"penstock"}
    assert own["penstock_tenant_runs_open"] == 1
    assert tenant.call("GET", "health") == {"ready": True, "checks": {"store": "ok"}, "last_backup_at": None}
    page = tenant.request("GET", "/metrics").body.decode()
    assert "penstock_tenant_runs_open 1\n" in page
    assert {line.split()[0] for line in page.splitlines() if not line.startswith("#")} == own.keys()
    assert b"penstock_http_requests_total" in operator.request("GET", "/metrics").body


def test_a_subject_that_one_tenant_revoked_is_not_revoked_in_another(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    owner, seeds = seeded["acme"]
    stranger = member(server, "sybil", name="stranger")
    own = stranger.call("POST", "tokens/revocations", {"issuer": ISSUER, "subject": f"{mark_of('acme')}-eve"})
    assert own["id"] == seeds["revocation_id"][0]
    assert (own["tenant"], own["reason"]) == ("sybil", None)
    stranger.call("DELETE", f"tokens/revocations/{own['id']}")
    [kept] = owner.call("GET", "tokens/revocations")["items"]
    assert (kept["id"], kept["reason"]) == (own["id"], mark_of("acme"))


def test_whoever_owns_everything_in_a_tenant_gets_no_further(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    stranger = member(server, "mallory", name="owner of mallory")
    for tenant in ("default", "acme"):
        refused = stranger.request("POST", "keys", {"name": "spare", "scopes": ["*"], "tenant": tenant})
        assert (refused.status, refused.json()["code"]) == (403, "SCOPE_REQUIRED")
        (key_id,) = seeded[tenant][1]["key_id"]
        for method, path in (("GET", ""), ("POST", "/revoke"), ("POST", "/rotate")):
            answer = stranger.request(method, f"keys/{key_id}{path}", None if method == "GET" else {})
            assert (answer.status, answer.json()["code"]) == (404, "KEY_NOT_FOUND")
    made = stranger.call("POST", "keys", {"name": "spare", "scopes": ["*"]})
    assert made["key"]["tenant"] == "mallory"
    # The operator sees everybody's keys: somebody must be able to take them away.
    tenants = {item["tenant"] for item in server.call("GET", "keys?limit=500")["items"]}
    assert {"default", "acme", "mallory"} <= tenants


def test_the_same_names_are_other_things_in_another_tenant(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    twin = member(server, "twin")
    seed(twin.call)
    before = what_is_there(*seeded["acme"])
    assert twin.call("POST", "executions/asks-1/answers", {"answer": {"ok": True}})["execution_id"] == "asks-1"
    assert twin.call("GET", "executions/asks-1/wait")["output"] == {"ok": True}
    twin.call("POST", "executions/waits-1/cancel", {})
    twin.call("POST", "executions/done-1/fork", {"at_sequence": 1, "new_execution_id": "forked"})
    twin.call("DELETE", "executions/done-1")
    twin.call("DELETE", "schedules/nightly")
    twin.call("DELETE", "workflows/count")
    twin.call("DELETE", "schemas/order")
    assert what_is_there(*seeded["acme"]) == before


def test_a_workflow_reaches_neither_the_runs_nor_the_workflows_of_another_tenant(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]]
) -> None:
    stranger = member(server, "mallory")
    pinned = seeded["acme"][0].call("GET", "workflows/approve")["hash"]

    def outcome(name: str, *nodes: dict[str, Any]) -> Any:
        document = {"penstock": "v1", "name": name, "nodes": [*nodes, {"id": "done", "type": "end"}]}
        stranger.call("POST", "workflows", {"document": document})
        return stranger.call("POST", f"workflows/{name}/executions", {"sync": True})

    before = what_is_there(*seeded["acme"])
    for number, workflow in enumerate(({"workflow": "approve"}, {"workflow": "approve", "version_pin": pinned})):
        ended = outcome(f"parent{number}", {"id": "child", "type": "subworkflow", **workflow})
        assert (ended["status"], ended["error"]["code"]) == ("failed", "WORKFLOW_NOT_FOUND")
    for number, target in enumerate(("waits-1", "acme~.waits-1")):
        ended = outcome(f"sender{number}", {"id": "send", "type": "emit", "run": target, "signal": "go"})
        assert (ended["status"], ended["error"]["code"]) == ("failed", "EXECUTION_NOT_FOUND"), ended
    assert what_is_there(*seeded["acme"]) == before


@pytest.mark.parametrize("execution_id", ["2", "7", "0", "12345678901234567", "1.2", "a-2"])
def test_an_id_of_digits_in_another_tenant_is_an_id_like_any_other(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]], execution_id: str
) -> None:
    owner, _ = seeded["acme"]
    # The default tenant has a run called like the tenant: a run that continued it would be called acme~2.
    operator, _ = seeded["default"]
    operator.request("POST", "workflows/signalled/executions", {"execution_id": "acme"})
    owner.call("POST", "workflows/approve/executions", {"execution_id": execution_id})
    owner.call("POST", f"executions/{execution_id}/answers", {"answer": {"ok": True}})
    ended = owner.call("GET", f"executions/{execution_id}/wait")
    assert (ended["execution_id"], ended["output"]) == (execution_id, {"ok": True})
    assert operator.request("GET", f"executions/{execution_id}").status == 404
    assert operator.request("GET", f"executions/acme~{execution_id}").status == 404
    forked = owner.call("POST", f"executions/{execution_id}/fork", {"at_sequence": 1})["execution_id"]
    assert owner.call("GET", f"executions/{forked}")["forked_from"] == execution_id
    owner.call("DELETE", f"executions/{execution_id}")


def test_a_key_without_the_scope_is_refused_whatever_it_asks_for(
    server: LiveServer, catalogue: list[Operation], limited: dict[str, Member]
) -> None:
    for operation in catalogue:
        for scope in operation.scopes:
            named = dict.fromkeys(operation.path_names, "anything")
            answer = limited[scope].request(*operation.request(named, {}))
            assert (answer.status, answer.json()["code"]) == (403, "SCOPE_REQUIRED"), (operation.name, scope)
            assert answer.json()["details"]["scope"] == scope


@pytest.fixture(scope="module")
def limited(server: LiveServer, catalogue: list[Operation]) -> dict[str, Member]:
    """For each scope: somebody who has all others."""
    scopes = sorted({scope for operation in catalogue for scope in operation.scopes})
    return {scope: member(server, "default", *(other for other in scopes if other != scope)) for scope in scopes}


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        (["key:write", "execution:read"], ["execution:*"]),
        (["key:write", "execution:read"], ["execution:write"]),
        (["key:write", "execution:*"], ["*"]),
        (["key:*"], ["workflow:read"]),
        (["key:write"], ["key:*"]),
    ],
)
def test_nobody_gives_more_than_they_have(server: LiveServer, own: list[str], asked: list[str]) -> None:
    answer = member(server, "default", *own).request("POST", "keys", {"name": "more", "scopes": asked})
    assert (answer.status, answer.json()["code"]) == (403, "SCOPE_REQUIRED")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("workflows/approve/executions", {"execution_id": "line\n"}),
        ("control/workflow_start", {"definition": {}, "execution_id": "line\n"}),
        ("schedules", {"schedule_id": "line\n", "workflow_id": "count", "cron": "0 3 * * *"}),
        ("keys", {"name": "x", "scopes": ["key:read"], "tenant": "line\n"}),
        ("schemas", {"id": "line\n", "schema": {}}),
        ("workflows", {"id": "line\n", "tasks": [{"id": "done", "type": "end"}]}),
        ("workflows", {"document": {"penstock": "v1", "name": "a\nb", "nodes": [{"id": "done", "type": "end"}]}}),
    ],
)
def test_a_name_with_the_end_of_a_line_is_refused(
    server: LiveServer, seeded: dict[str, tuple[Member, Seeds]], path: str, body: dict[str, Any]
) -> None:
    answer = server.request("POST", path, body)
    assert (answer.status, answer.media_type) == (422, "application/problem+json"), answer


def test_a_long_document_of_one_tenant_does_not_hold_up_the_others(server: LiveServer) -> None:
    busy, other = member(server, "mallory"), member(server, "acme", "workflow:read")
    nodes = [{"id": f"n{number}", "type": "set_state", "set": {"x": number}} for number in range(3_000)]
    document = {"penstock": "v1", "name": "long", "nodes": [*nodes, {"id": "done", "type": "end"}]}
    with ThreadPoolExecutor(max_workers=1) as pool:
        checking = pool.submit(busy.call, "POST", "workflows/validate", {"document": document})
        answered = 0
        while not checking.done():
            assert other.request("GET", "info").status == 200
            answered += 1
        assert checking.result()["valid"] is True
    assert answered >= 10


def test_a_large_input_comes_back_as_it_was_and_a_larger_one_is_refused(server: LiveServer) -> None:
    owner = member(server, "large")
    owner.call("POST", "workflows", {"document": APPROVE})
    given = {"text": "ü" * 200_000, "numbers": list(range(100_000)), "": {"\u0000": [None, True, 1.5, -(2**53)]}}
    started = owner.call("POST", "workflows/approve/executions", {"input": given})
    assert owner.call("GET", f"executions/{started['execution_id']}")["input"] == given
    for input_, status in (({"text": "x" * 2_100_000}, 413), (nested(300), 400), (nested(100_000), 400)):
        body = json.dumps({"input": None}).replace("null", input_ if isinstance(input_, str) else json.dumps(input_))
        answer = owner.request("POST", "workflows/approve/executions", body.encode())
        assert (answer.status, answer.media_type) == (status, "application/problem+json"), answer
    assert len(owner.call("GET", "executions")["items"]) == 1


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels
