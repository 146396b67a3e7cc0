"""How an operation says what a call of it can reach: names made of its arguments.

    reaches=named("workflow:", "workflow_id")

The arguments are those of a call, or those that a node of a workflow writes. Of the latter, some are computed when the
node runs: they are `*`, and a name with `*` at its end stands for all that begin like this.

Above it: operations that start something, `operations.reachable`. Below it: `definitions.reached`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from penstock.definitions.reached import ANY, Reached

__all__ = ["Reaches", "argument", "named"]

Reaches: TypeAlias = Callable[[Mapping[str, Any]], Iterable[Reached]]
"""Returns what a call with these arguments can reach, by name."""


def argument(arguments: Mapping[str, Any], member: str) -> Any:
    """Return an argument; `*` if it is not known beforehand, None if it is not there."""
    return arguments.get(member, arguments.get(ANY))


def named(prefix: str, *members: str) -> Reaches:
    """Return what an operation reaches whose arguments name it: `workflow:` and the value of `workflow_id`.

    Several members are joined by a slash.
    """

    def reaches(arguments: Mapping[str, Any]) -> Iterable[Reached]:
        values = [argument(arguments, member) for member in members]
        if not all(isinstance(value, str) for value in values):
            return ()
        if ANY in values:
            values = [*values[: values.index(ANY)], ANY]
        return (Reached(prefix + "/".join(values)),)

    return reaches
