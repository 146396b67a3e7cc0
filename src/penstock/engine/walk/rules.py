"""What may differ between types of nodes: the functions and facts of a node type, as one value.

`RULES` is read on every move, so it is a dictionary; `nodes.table` fills it when it is imported, and mypy checks there
that no type is missing. It stands here, below the modules of the nodes, because completing a node needs the facts of
its type and those modules need completion.

Above it: the modules of `nodes`, `completion`, `starting`, `advance`. Below it: `turn`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UnsetType

from penstock.base.json import JsonValue
from penstock.definitions.model import Node, NodeType
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.turn import Turn

__all__ = ["RULES", "Move", "NodeRules", "deadline_of", "name_of"]

D = TypeVar("D")

Move: TypeAlias = Callable[[Turn, Scope, Node, Activation], None]


class NodeRules(msgspec.Struct, Generic[D], frozen=True, kw_only=True):
    """The rules of a node type. `D` is what the model keeps of such a node."""

    detail: type[D]
    begin: Callable[[Turn, Scope, Node, D], None]
    """The first move of a node that was scheduled. It records something: a wait, a request, or the end of the visit."""
    moves: Mapping[Phase, Move] = {}
    """The move in a phase that only such a node is in, or where it does something else than others (see `advance`)."""
    body_result: Callable[[Turn, Scope, Node, D], JsonValue | Failure] | None = None
    """What a finished body gives; without it, the output of its last node."""
    failed_body_result: Callable[[D, Failure], JsonValue | UnsetType] | None = None
    """What a failed body gives all the same."""
    result_violation: Callable[[Turn, D, JsonValue], Failure | None] | None = None
    """Why a fallback may not be the result of the node."""
    hands_out: bool = False
    """Whether it hands something to the world or waits for it. A run without such a node is over at once."""
    ends_run: bool = False
    """Whether the last record of the run follows at once, so that no checkpoint is needed."""
    has_successor: bool = True
    """Whether the walk knows where to go on with a fallback; at the root nothing follows a switch, for example."""
    writes_native_state: bool = False
    writes_published_state: bool = True
    """Whether its output is merged into the state, in documents of either format."""
    checkpoint: Literal["always", "declared", "declared_or_host_mediated"] = "always"
    """When a checkpoint follows: some have one only if the document declares it, as published."""


RULES: dict[NodeType, NodeRules[Any]] = {}


def deadline_of(turn: Turn, node: Node) -> int | None:
    """When a node that begins now has run out of time."""
    return None if node.timeout_ms is None else turn.at + node.timeout_ms


def name_of(activation: Activation, key: str) -> str:
    """What the outside calls something that an activation waits for."""
    return str((activation.external or {}).get(key))
