"""Policies for one graph only: they always concern that graph and its stored queries.

The scope of each policy is narrowed to the graph. One that names another resource is a mistake, and so is one that
names a stored query which the graph does not have. Beside the server's own policies they are part of one set: a permit
of either permits, a forbid of either forbids. Where the server has no policies, scopes decide about everything else.

Above it: the stored queries of a graph, the gate's stage for policies. Below it: `source`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from penstock.governance.policy.source import ParsedText, Policy, PolicyProblem, parse_policies

__all__ = ["confined_to", "scopes_decide_elsewhere"]

_GRAPH, _QUERY = "Graph", "StoredQuery"
_ACTION, _QUERY_ACTION = "Action", "query:"


def confined_to(graph_id: str, queries: Collection[str], policies: Iterable[Policy]) -> ParsedText:
    """Return policies that hold for one graph only, and what keeps them from that. `queries` are its stored queries.

    The ids of the policies begin with the graph, so that several graphs can have the same file.
    """
    found: list[Policy] = []
    problems: list[PolicyProblem] = []
    for policy in policies:
        resource = _within(policy.body["resource"], graph_id)
        wrong = list(dict.fromkeys(_unknown(policy.body, graph_id, queries)))
        if resource is None:
            wrong.append(f'the policy is not about this graph: name Graph::"{graph_id}", its queries, or no resource')
        problems += [_problem(policy, message) for message in wrong]
        if resource is not None:
            found.append(replace(policy, id=f"{graph_id}/{policy.id}", body={**policy.body, "resource": resource}))
    return ParsedText(policies=tuple(found), problems=tuple(problems))


def scopes_decide_elsewhere(graph_ids: Iterable[str]) -> Policy:
    """Return the policy in place of a server-wide set, if only some graphs have policies."""
    listed = ", ".join(f'{_GRAPH}::"{graph_id}"' for graph_id in sorted(graph_ids))
    text = (
        '@id("scopes-decide-elsewhere") @description("Outside graphs with policies, scopes decide.")\n'
        f"permit (principal, action, resource) unless {{ resource in [{listed}] }};"
    )
    (found,) = parse_policies(text, "built-in").policies
    return found


def _problem(policy: Policy, message: str) -> PolicyProblem:
    return PolicyProblem(message=message, source=policy.source, line=policy.line, policy_id=policy.id)


def _within(scope: dict[str, Any], graph_id: str) -> dict[str, Any] | None:
    """Return the scope of a resource, narrowed to a graph; None if it is about something else."""
    graph = {"entity": {"type": _GRAPH, "id": graph_id}}
    match scope["op"]:
        case "All":
            return {"op": "in", **graph}
        case "is" if "in" not in scope:
            is_about = scope["entity_type"] in (_GRAPH, _QUERY)
            return {**scope, "in": graph} if is_about else None
        case _:
            named = scope["in"]["entity"] if "in" in scope else scope["entity"]
            return scope if _is_of(named, graph_id) else None


def _is_of(entity: dict[str, str], graph_id: str) -> bool:
    kind, name = entity["type"], entity["id"]
    return (kind, name) == (_GRAPH, graph_id) or (kind == _QUERY and name.startswith(f"{graph_id}/"))


def _unknown(body: Any, graph_id: str, queries: Collection[str]) -> Iterator[str]:
    """Yield a message for every stored query that a policy names and the graph does not have."""
    members = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    if isinstance(body, dict) and isinstance(body.get("type"), str) and isinstance(body.get("id"), str):
        kind, name = body["type"], body["id"]
        if kind == _ACTION and name.startswith(_QUERY_ACTION):
            kind, name = _QUERY, name.removeprefix(_QUERY_ACTION)
        if kind == _QUERY and name not in {f"{graph_id}/{query}" for query in queries}:
            yield f"this graph has no stored query {name}"
    for member in members:
        yield from _unknown(member, graph_id, queries)
