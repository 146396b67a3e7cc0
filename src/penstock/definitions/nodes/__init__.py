"""The node types, one module each: a module holds everything that the document side knows about its type.

Read `emit` first. It is a small one; `interrupt` uses nearly everything. A module declares its type as a `NodeKind`
(see `node_parts.kind`): fields in both formats, compilation, routes and bodies, places of jq, checks, the meaning of a
change, its look in a drawing, and its text in the reference. The modules are pure and do not import each other; what
several share is in `node_parts`. `NODE_KINDS` has them all, and everything that walks a document reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from penstock.base.json import JsonObject
from penstock.definitions.model import PUBLISHED_TYPES, NodeType
from penstock.definitions.node_parts.kind import NodeKind
from penstock.definitions.nodes import (
    agent_delegate,
    continue_as_new,
    emit,
    end,
    fail,
    for_each,
    http,
    interrupt,
    llm_call,
    loop,
    parallel,
    query,
    race,
    set_state,
    start,
    step,
    subworkflow,
    switch,
    tool_call,
    wait,
)

__all__ = ["ACTIVITY_KINDS", "NODE_KINDS", "PUBLISHED_KINDS", "delegating_node", "implied_activity", "kind_named"]

delegating_node = agent_delegate.delegating_node


def _kind_of(node_type: NodeType) -> NodeKind:  # noqa: C901, PLR0912  # mypy checks that no type is missing
    match node_type:
        case NodeType.START:
            return start.KIND
        case NodeType.END:
            return end.KIND
        case NodeType.STEP:
            return step.KIND
        case NodeType.LLM_CALL:
            return llm_call.KIND
        case NodeType.TOOL_CALL:
            return tool_call.KIND
        case NodeType.HTTP:
            return http.KIND
        case NodeType.QUERY:
            return query.KIND
        case NodeType.AGENT_DELEGATE:
            return agent_delegate.KIND
        case NodeType.SWITCH:
            return switch.KIND
        case NodeType.INTERRUPT:
            return interrupt.KIND
        case NodeType.PARALLEL:
            return parallel.KIND
        case NodeType.RACE:
            return race.KIND
        case NodeType.WAIT:
            return wait.KIND
        case NodeType.SET_STATE:
            return set_state.KIND
        case NodeType.SUBWORKFLOW:
            return subworkflow.KIND
        case NodeType.FOR_EACH:
            return for_each.KIND
        case NodeType.LOOP:
            return loop.KIND
        case NodeType.EMIT:
            return emit.KIND
        case NodeType.FAIL:
            return fail.KIND
        case NodeType.CONTINUE_AS_NEW:
            return continue_as_new.KIND
        case _:
            assert_never(node_type)


# In the order in which the reference and the editor schema list them.
NODE_KINDS: Mapping[NodeType, NodeKind] = {node_type: _kind_of(node_type) for node_type in NodeType}
ACTIVITY_KINDS = tuple(kind for kind in NODE_KINDS.values() if kind.activity is not None)
PUBLISHED_KINDS = tuple(NODE_KINDS[node_type] for node_type in PUBLISHED_TYPES)
_BY_NAME: Mapping[str, NodeKind] = {kind.name: kind for kind in NODE_KINDS.values()}


def kind_named(name: str) -> NodeKind | None:
    """The declaration of a type by the word that documents use, or None if there is no such type."""
    return _BY_NAME.get(name)


def implied_activity(fields: JsonObject) -> NodeKind:
    """The activity that a compensation without a type means: one with a field that only it has, otherwise a step."""
    implied = (kind for kind in ACTIVITY_KINDS if kind.activity and kind.activity.implied_by in fields)
    return next(implied, step.KIND)
