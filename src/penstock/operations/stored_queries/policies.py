"""The policies of a declared graph: read from the texts of its files, checked with its queries, and put in force.

They are checked before anything of the graph changes, with the queries that it is about to have, so a mistake leaves
the graph as it was. Like those of the server, they are in the memory of each process that reads the files.

Above it: `operations.graphs.configuring`. Below it: `governance.policy`, the gate's stage for policies.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.base.errors import Rejected, Unavailable
from penstock.base.json import JsonValue
from penstock.governance.policy.confined import confined_to
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.sets import SCOPES_DECIDE
from penstock.governance.policy.source import Policy, parse_policies, without_policies
from penstock.governance.policy.validation import validate
from penstock.operations.gate.context import Services
from penstock.operations.stored_queries.capabilities import query_capability
from penstock.operations.stored_queries.checking import checked_graph
from penstock.operations.stored_queries.definitions import GraphDefinition
from penstock.runtime.ports.graphs import GraphRow

__all__ = ["PolicyFile", "graph_policies", "put_in_force"]


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with policies."""

    name: str
    text: str


def graph_policies(
    services: Services,
    row: GraphRow,
    definition: GraphDefinition,
    files: Sequence[PolicyFile],
    *,
    beside_server: bool = False,
) -> tuple[Policy, ...]:
    """Return the policies of a graph that is about to be offered like this; raise `Rejected` with every mistake.

    `beside_server`: the server has policies, too, so that these need not permit anything by themselves.
    """
    graph_id, queries = row.ref.name, definition.by_name
    policies: list[Policy] = []
    problems = without_policies((file.name, file.text) for file in files)
    for file in files:
        parsed = parse_policies(file.text, file.name)
        confined = confined_to(graph_id, queries, parsed.policies)
        policies += confined.policies
        problems += [*parsed.problems, *confined.problems]
    if not problems and policies:
        server = () if services.policies is None else services.policies.server
        server = server or ((SCOPES_DECIDE,) if beside_server else ())
        named = {policy.source for policy in policies}
        found = validate([*server, *policies], _actions(services, row, definition))
        problems += [item for item in found if item.severity == "error" and item.source in named]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        listed: list[JsonValue] = [str(item) for item in problems]
        message = f"the policies of the graph {graph_id} cannot be used: {problems[0]}{more}"
        raise Rejected(
            "POLICY_INVALID", message, "correct the files that `policy` of the graph names", {"problems": listed}
        )
    return tuple(policies)


def put_in_force(services: Services, row: GraphRow, policies: tuple[Policy, ...]) -> None:
    """Decide about a graph with these policies from now on."""
    if services.policies is not None:
        services.policies.replace_graph_set(row.ref.tenant, row.ref.name, policies)
    elif policies:
        raise Unavailable(
            "NOT_CONFIGURED",
            "this process has no policies: it decides by scopes",
            "remove `policy` from the graph in the settings",
        )


def _actions(services: Services, row: GraphRow, definition: GraphDefinition) -> dict[str, ActionShape]:
    """Return the actions that can concern a graph: the built-in operations, and its queries."""
    catalogue = services.catalogue
    found = [item.policy_action for item in (catalogue.all() if catalogue is not None else ())]
    checked = checked_graph(services, row, definition)
    found += [
        query_capability(row, query, checked.queries[query.name]).policy_action
        for query in definition.queries
        if query.name in checked.queries
    ]
    return {action.name: action for action in found}
