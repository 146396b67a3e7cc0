"""Whether a run is untrusted: whether its history contains data from outside.

Models, tools of other servers, agents and HTTP servers are outside; so is a client that starts, signals or answers a
run over MCP or a webhook. A run becomes untrusted with the first record that says so, and never becomes trusted again.
The mark passes to every run that it starts, signals or reports its end to, so that forwarding a text does not launder
it.

Above it: `evolve` folds the mark into the state, hosts pass it on. Below it: records and inputs. It does not judge
values: steps are the operator's own code, and their results are as trusted as the run that they are part of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.definitions.model import OUTSIDE_TYPES
from penstock.engine import inputs
from penstock.engine.records import TYPES, Body, events

__all__ = ["UNTRUSTED", "from_outside", "is_outside", "says_untrusted", "untrusted_mark"]

UNTRUSTED = "untrusted"
"""Our key by which a record says that its data comes from outside."""


def is_outside(node_type: object) -> bool:
    """Whether the work of such a node is done outside: by a model, a tool, an agent or an HTTP server."""
    return node_type in OUTSIDE_TYPES


def says_untrusted(body: Body) -> bool:
    """Whether this body makes the run untrusted."""
    check = _CHECKS.get(type(body))
    return check is not None and check(body)


def _asks_outside(body: events.ActivityRequested) -> bool:
    # The request leads to questions, errors and results alike, so it marks the run for all of them.
    return is_outside(body.node_type)


def _asks_the_starter(body: events.ActivityAsked) -> bool:
    return body.ask is not None  # the program that started the run will answer


def _is_marked(body: Any) -> bool:
    return body.untrusted is True


# Looked up by type, because every record passes through here.
_CHECKS: dict[type[Body], Callable[[Any], bool]] = {
    events.ActivityRequested: _asks_outside,
    events.ActivityAsked: _asks_the_starter,
    **{kind: _is_marked for kind in TYPES.values() if "untrusted" in kind.__struct_fields__},
}


def untrusted_mark(*, untrusted: bool, known: bool = False) -> JsonObject:
    """Return the mark for untrusted data; it is not repeated once the run is known to be untrusted.

    Trusted data has no mark.
    """
    return {UNTRUSTED: True} if untrusted and not known else {}


def from_outside(given: inputs.Input) -> inputs.Input:
    """Return an input marked as coming from outside. An input that carries no data is returned unchanged.

    Answers carry their own mark (a person's or a model's), see `inputs.Answerer`.
    """
    match given:
        case inputs.StartRun() | inputs.SendSignal():
            return replace(given, untrusted=True)
        case inputs.CompleteActivity() | inputs.FailActivity():
            return replace(given, extra={**(given.extra or {}), UNTRUSTED: True})
        case _:
            return given
