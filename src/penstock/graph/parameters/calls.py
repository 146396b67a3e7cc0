"""The parameters of a call: JSON to typed values, with everything that is wrong at once.

A parameter that is nullable may be null or left out, which means the same. Keys that the query does not declare are
refused: a misspelt filter must not be a missing one. `values` says what is accepted for each type.

Above it: operations and tools. Below it: `values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.base.json import JsonValue, json_pointer
from penstock.definitions.source.findings import NameSuggestions
from penstock.graph.parameters.values import Unfit, from_json
from penstock.graph.schema.model import Enum, ListOf
from penstock.graph.typing.model import CheckedParameter
from penstock.graph.values import GraphValue

__all__ = ["Arguments", "ParameterProblem", "coerce_parameters"]

Arguments: TypeAlias = Mapping[str, GraphValue | None]
"""Typed values by parameter: every parameter of the query is in it."""


@dataclass(frozen=True, slots=True)
class ParameterProblem:
    """What is wrong with a parameter. `path` is a JSON pointer into the parameters."""

    parameter: str
    message: str
    path: str

    def __str__(self) -> str:
        return f"parameter `{self.parameter}` {self.message}"


def coerce_parameters(
    parameters: Sequence[CheckedParameter], given: Mapping[str, JsonValue] | None
) -> Arguments | tuple[ParameterProblem, ...]:
    """Coerce the parameters of a call, or say what is wrong with each of them."""
    given = given or {}
    names = {each.name for each in parameters}
    suggestions = NameSuggestions()
    problems = [_undeclared(key, names, suggestions) for key in given if key not in names]
    found: dict[str, GraphValue | None] = {}
    for each in parameters:
        value = _coerced(each, given)
        if isinstance(value, Unfit):
            path = json_pointer((each.name, *value.path))
            place = f" at index {value.path[0]}" if value.path else ""
            problems.append(ParameterProblem(each.name, f"{value.message}{place}", path))
        else:
            found[each.name] = value
    return tuple(problems) if problems else found


def _undeclared(key: str, names: set[str], suggestions: NameSuggestions) -> ParameterProblem:
    hint = suggestions.hint(key, sorted(names))
    return ParameterProblem(key, f"is not declared{f'; {hint}' if hint else ''}", json_pointer((key,)))


def _coerced(parameter: CheckedParameter, given: Mapping[str, JsonValue]) -> GraphValue | Unfit | None:
    if parameter.name not in given:
        return None if parameter.nullable else Unfit("is missing")
    value = from_json(given[parameter.name], parameter.type, nullable=parameter.nullable)
    if value is None or isinstance(value, Unfit) or parameter.values is None:
        return value
    allowed = Enum(parameter.values)
    if not isinstance(parameter.type, ListOf):
        return from_json(given[parameter.name], allowed)
    wrong = (
        next((at for at, each in enumerate(value) if each not in allowed.values), None)
        if isinstance(value, tuple)
        else None
    )
    return value if wrong is None else Unfit(f"needs some of {', '.join(allowed.values)}", (wrong,))
