"""Whether a run is untrusted: whether its history holds anything that somebody outside has said.

Models, tools of other servers, agents and HTTP servers are outside; so is whoever starts, signals or answers a run over
MCP or a webhook. A run is untrusted from the record on that says so, and never trusted again. What it starts, signals
or reports its end to takes the mark over, so that passing a text on does not launder it.

Above it: `evolve` folds the mark into the state, hosts hand it on. Below it: records and inputs. It judges no value:
steps are the operator's own code, and what they give is as trusted as the run that they are part of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.engine import inputs
from penstock.engine.records import TYPES, Body, events

__all__ = ["UNTRUSTED", "from_outside", "is_outside", "says_untrusted", "untrusted_mark"]

UNTRUSTED = "untrusted"
"""The key of ours under which a record says that what it brings comes from outside."""

_OUTSIDE = frozenset({NodeType.LLM_CALL, NodeType.TOOL_CALL, NodeType.AGENT_DELEGATE, NodeType.HTTP})


def is_outside(node_type: object) -> bool:
    """Whether the work of such a node is done outside: by a model, a tool, an agent, an HTTP server."""
    return node_type in _OUTSIDE


def says_untrusted(body: Body) -> bool:
    """Whether a run is untrusted from the record with this body on."""
    says = _SAYS.get(type(body))
    return says is not None and says(body)


def _asks_outside(body: events.ActivityRequested) -> bool:
    # It leads to questions, errors and results alike: the request says it for all.
    return is_outside(body.node_type)


def _asks_the_starter(body: events.ActivityAsked) -> bool:
    return body.ask is not None  # it goes to the program that started the run


def _is_marked(body: Any) -> bool:
    return body.untrusted is True


# Asked of every record, so by type and not one after the other.
_SAYS: dict[type[Body], Callable[[Any], bool]] = {
    events.ActivityRequested: _asks_outside,
    events.ActivityAsked: _asks_the_starter,
    **{kind: _is_marked for kind in TYPES.values() if "untrusted" in kind.__struct_fields__},
}


def untrusted_mark(*, untrusted: bool, known: bool = False) -> JsonObject:
    """The mark of something untrusted in a record; not repeated once the run is known to be untrusted.

    There is no mark for what is trusted.
    """
    return {UNTRUSTED: True} if untrusted and not known else {}


def from_outside(given: inputs.Input) -> inputs.Input:
    """An input with the mark that it comes from outside; one that brings nothing stays as it is.

    Whether an answer is a person's or a model's is known of the answer itself, see `inputs.Answerer`.
    """
    match given:
        case inputs.StartRun() | inputs.SendSignal():
            return replace(given, untrusted=True)
        case inputs.CompleteActivity() | inputs.FailActivity():
            return replace(given, extra={**(given.extra or {}), UNTRUSTED: True})
        case _:
            return given
