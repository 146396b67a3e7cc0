"""Tenants on a live server: whatever somebody of another tenant asks, nothing of a tenant is seen, named or changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live.rest.seeds import APPROVE, Seeds, seed
from tests.live.rest.servers import Answer, LiveServer
from tests.live.tenants import BODIES, Member, Operation, member, operations, requests_about

UNUSED = "nobody-has-this"
# Who is attacked, and by whom: the default tenant is no less a tenant than the others.
PAIRS = [("default", "mallory"), ("acme", "mallory"), ("acme", "default")]


@pytest.fixture(scope="module")
def catalogue(server: LiveServer) -> list[Operation]:
    return operations(server)


@pytest.fixture(scope="module")
def seeded(server: LiveServer) -> dict[str, tuple[Member, Seeds]]:
    """Two tenants that have one of everything."""
    found = {}
    for tenant in ("default", "acme"):
        owner = member(server, tenant, name="owner")
        found[tenant] = (owner, seed(owner.call))
    return found


def what_is_there(owner: Member, seeds: Seeds) -> dict[str, Any]:
    """Everything that could have been changed."""
    paths = [f"workflows/{name}" for name in seeds["workflow_id"]]
    paths += [f"executions/{name}{part}" for name in seeds["execution_id"] for part in ("", "/history?limit=500")]
    paths += [f"schedules/{name}" for name in seeds["schedule_id"]]
    paths += [f"webhooks/{name}" for name in seeds["endpoint_id"]]
    for kind in ("schema", "model", "tool", "agent"):
        paths += [f"{kind}s/{name}" for name in seeds[f"{kind}_id"]]
    paths += [*(f"keys/{name}" for name in seeds["key_id"]), "executions?limit=500", "schedules", "triggers"]
    return {path: owner.call("GET", path) for path in paths}


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
        guessed = {name: [f"{tenant}~.{item}" for item in seeds[name]] for name in ("execution_id", "schedule_id")}
        seeds = Seeds(seeds | guessed)
    before = what_is_there(owner, seeded[tenant][1])
    tried = 0
    for operation in catalogue:
        if other == "default" and operation.about not in ("execution_id", "schedule_id"):
            continue
        for name, (method, path, body) in requests_about(operation, seeds):
            answer = stranger.request(method, path, body)
            text = json.dumps(body).replace(name, UNUSED)
            missing = stranger.request(method, path.replace(name, UNUSED, 1), json.loads(text))
            assert anonymous(answer, name, UNUSED) == anonymous(missing, name, UNUSED), operation.name
            if operation.name == "workflow.executions":
                assert answer.json()["items"] == []
            else:
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
    ):
        assert stranger.call("GET", path)["items"] == [], path
    assert stranger.call("GET", "workflows/export")["workflows"] == []
    assert stranger.call("POST", "control/workflow_list", {})["executions"] == []
    assert {item["tenant"] for item in stranger.call("GET", "keys")["items"]} == {other}
    assert stranger.request("DELETE", f"executions/{execution}").status == 404
    seen = stranger.call("GET", "audit?limit=500&operation=execution.delete")["items"]
    assert stranger.call("GET", "info")["principal"] in {item["principal"] for item in seen}
    assert {item["outcome"] for item in seen} == {"refused"}
    assert stranger.call("GET", "audit/export")["tenant"] == other
    assert stranger.call("POST", "audit/verify", {})["intact"] is True


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
