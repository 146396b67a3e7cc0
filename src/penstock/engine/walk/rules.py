"""What may differ between node types: the functions and facts of a node type, as one value.

`RULES` is read on every move, so it is a dictionary. `nodes.table` fills it on import, and mypy checks there that no
type is missing. It is defined here, below the node modules, because completing a node needs the facts of its type and
those modules need completion.

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
    """The rules of a node type. `D` is the type of the detail that the model keeps for such a node."""

    detail: type[D]
    begin: Callable[[Turn, Scope, Node, D], None]
    """The first move of a scheduled node. It writes a record: a wait, a request, or the end of the visit."""
    moves: Mapping[Phase, Move] = {}
    """The moves in phases that only such a node has, or in which it differs from the others (see `advance`)."""
    body_result: Callable[[Turn, Scope, Node, D], JsonValue | Failure] | None = None
    """The result of a finished body; without it, the output of its last node."""
    failed_body_result: Callable[[D, Failure], JsonValue | UnsetType] | None = None
    """The result of a failed body, if it has one."""
    result_violation: Callable[[Turn, D, JsonValue], Failure | None] | None = None
    """Why a fallback may not be the result of the node."""
    hands_out: bool = False
    """Whether it gives work to the outside or waits for it. A run without such a node ends in its first decision."""
    ends_run: bool = False
    """Whether the last record of the run follows immediately, so that no checkpoint is needed."""
    has_successor: bool = True
    """Whether the walk can continue after a fallback; at the root nothing follows a switch, for example."""
    writes_native_state: bool = False
    writes_published_state: bool = True
    """Whether its output is merged into the state, in documents of either format."""
    checkpoint: Literal["always", "declared", "declared_or_host_mediated"] = "always"
    """When a checkpoint follows: for some types only if the document declares it, as published."""


RULES: dict[NodeType, NodeRules[Any]] = {}


def deadline_of(turn: Turn, node: Node) -> int | None:
    """Return when a node that begins now times out."""
    return None if node.timeout_ms is None else turn.at + node.timeout_ms


def name_of(activation: Activation, key: str) -> str:
    """Return the outside's name for something that an activation waits for."""
    return str((activation.external or {}).get(key))
