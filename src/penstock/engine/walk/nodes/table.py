"""The table from node type to rules. mypy rejects it if a type is missing.

Importing this module fills `rules.RULES`, which `completion` and others below read.

Above it: `advance`. Below it: the node modules.
"""

from __future__ import annotations

from typing import Any

from penstock.definitions.model import NodeType
from penstock.engine.walk.nodes import (
    activity,
    continue_as_new,
    emit,
    flow,
    for_each,
    interrupt,
    loop,
    parallel,
    subworkflow,
    wait,
)
from penstock.engine.walk.rules import RULES, NodeRules

__all__ = ["rules_of"]


def rules_of(node_type: NodeType) -> NodeRules[Any]:  # noqa: C901, PLR0912  # a table, one row after another
    """Return the rules of a node type."""
    match node_type:
        case NodeType.START:
            return flow.START
        case NodeType.END:
            return flow.END
        case NodeType.FAIL:
            return flow.FAIL
        case NodeType.SWITCH:
            return flow.SWITCH
        case NodeType.SET_STATE:
            return flow.SET_STATE
        case NodeType.CONTINUE_AS_NEW:
            return continue_as_new.CONTINUE_AS_NEW
        case NodeType.STEP | NodeType.LLM_CALL | NodeType.TOOL_CALL | NodeType.HTTP | NodeType.QUERY:
            return activity.ACTIVITY
        case NodeType.AGENT_DELEGATE:
            return activity.AGENT_DELEGATE
        case NodeType.INTERRUPT:
            return interrupt.INTERRUPT
        case NodeType.WAIT:
            return wait.WAIT
        case NodeType.EMIT:
            return emit.EMIT
        case NodeType.SUBWORKFLOW:
            return subworkflow.SUBWORKFLOW
        case NodeType.PARALLEL | NodeType.RACE:
            return parallel.PARALLEL
        case NodeType.FOR_EACH:
            return for_each.FOR_EACH
        case NodeType.LOOP:
            return loop.LOOP


RULES.update({node_type: rules_of(node_type) for node_type in NodeType})
