"""Options that several commands share, declared once as the fields of a dataclass.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class RunOptions:
        server: ServerOption = None
        as_json: JsonOption = False

    @expand_option_groups
    def show_command(execution_id: RunArgument, *, options: RunOptions) -> None: ...

Typer reads options off the signature of a function and has no groups of its own. The decorator puts the fields of the
dataclass where the parameter was, so help, order and names are those of a function that spells them out.

Above it: the commands. Below it: nothing but `inspect`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

__all__ = ["expand_option_groups"]


def expand_option_groups(function: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the fields of its dataclass parameters, and hands them over as dataclasses."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        function(**values)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            parameters.extend(_field_parameters(groups[parameter.name]))
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # `inspect` looks here first
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _field_parameters(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
        )
