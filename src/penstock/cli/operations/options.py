"""From the arguments of an operation to the options of its command, and back.

Arguments in the path are positional; the others are options. `source` is read from `--file`. A JSON value is given as
such or as `@FILE`; lists are repeatable options, and maps are repeatable KEY=VALUE pairs.

Above it: `commands`. Below it: the client's table of operations, `terminal.values`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Option
from penstock.cli.terminal.files import Unreadable, read_path
from penstock.cli.terminal.values import UsageError, parse_value
from penstock.cli.wording import words_of
from penstock.client.operations import Operation, Parameter

__all__ = ["RESERVED", "is_document", "option_of", "parameter_signature", "read_arguments"]

# Options that every command has; an argument of that name is prefixed with its resource.
RESERVED: Final = frozenset({"all", "db", "file", "idempotency-key", "json", "profile", "server"})
_SOURCE: Final = "source"
# Operations whose `source` is a branch of a graph, and not the text of a document.
_FROM_BRANCH: Final = frozenset(
    {"graph.branches_create", "graph.branches_merge", "graph.branches_preview", "graph.diff", "graph.load"}
)
_RUNS: Final = "execution"
_CHOICES_SHOWN_MAX: Final = 5
_TYPES: Final[Mapping[str, Any]] = {
    "text": str | None,
    "integer": int | None,
    "number": float | None,
    "boolean": bool | None,
    "object": str | None,
    "any": str | None,
    "map": list[str] | None,
    "list": list[str] | None,
}
_METAVARS: Final = {"integer": "N", "number": "NUMBER", "object": "JSON", "any": "JSON", "map": "KEY=VALUE"}


def option_of(operation: Operation, parameter: Parameter) -> str:
    """The option of an argument, or its metavar if it is positional."""
    if parameter.place == "path":
        return parameter.name.upper()
    if is_document(operation, parameter):
        return "--file"
    name = parameter.name.replace("_", "-")
    return f"--{operation.resource}-{name}" if name in RESERVED else f"--{name}"


def parameter_signature(operation: Operation) -> Iterator[inspect.Parameter]:
    """The arguments of an operation as parameters of a function that declare them."""
    for parameter in operation.parameters:
        kind: Any = _TYPES[parameter.kind]
        required = parameter.required and not is_document(operation, parameter)
        info: Any
        if parameter.place == "path":
            info = Argument(metavar=_place(operation, parameter), help=words_of(_help(operation, parameter)))
        else:
            text = words_of(_help(operation, parameter))
            info = Option(tuple(_flags(operation, parameter)), metavar=_metavar(operation, parameter), help=text)
        yield inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if required else None,
            annotation=Annotated[_present(kind) if required else kind, info],
        )


def _present(kind: Any) -> Any:
    """A type without None."""
    (found,) = (option for option in kind.__args__ if option is not type(None))
    return found


def _flags(operation: Operation, parameter: Parameter) -> list[str]:
    option = option_of(operation, parameter)
    if parameter.kind == "boolean":
        return [f"{option}/--no-{option.removeprefix('--')}"]
    return [option]


def _place(operation: Operation, parameter: Parameter) -> str:
    return "RUN" if operation.resource == _RUNS and parameter.name == f"{_RUNS}_id" else parameter.name.upper()


def is_document(operation: Operation, parameter: Parameter) -> bool:
    """Whether an argument is the text of a document, which the command line reads from a file."""
    return parameter.name == _SOURCE and operation.name not in _FROM_BRANCH


def _metavar(operation: Operation, parameter: Parameter) -> str | None:
    if is_document(operation, parameter):
        return "FILE"
    if parameter.kind == "boolean":
        return None
    if 0 < len(parameter.choices) <= _CHOICES_SHOWN_MAX:
        return "|".join(parameter.choices)
    found = "JSON" if parameter.items in ("object", "any") else _METAVARS.get(parameter.kind)
    return found or parameter.name.upper()


def _help(operation: Operation, parameter: Parameter) -> str:
    if is_document(operation, parameter):
        return "The document: a file, or - for standard input."
    notes = []
    if len(parameter.choices) > _CHOICES_SHOWN_MAX:
        notes.append(f"One of {', '.join(parameter.choices)}.")
    if parameter.kind in ("object", "any") or parameter.items in ("object", "any"):
        notes.append("JSON, or @FILE (YAML or JSON).")
    if parameter.kind in ("list", "map"):
        notes.append("Repeatable.")
    if parameter.nullable:
        notes.append("`null` for none.")
    if parameter.default not in (None, [], {}, False):
        notes.append(f"Default: {parameter.default}.")
    words = parameter.description or f"{parameter.name.replace('_', ' ').capitalize()}."
    return " ".join([words if words.endswith((".", "?", "!")) else f"{words}.", *notes])


def read_arguments(operation: Operation, values: Mapping[str, Any]) -> JsonObject:
    """The arguments of a call, from what was given on the command line."""
    found: JsonObject = {}
    for parameter in operation.parameters:
        given = values.get(parameter.name)
        if given is not None:
            found[parameter.name] = _read(operation, parameter, given)
    return found


def _read(operation: Operation, parameter: Parameter, given: Any) -> JsonValue:
    option = option_of(operation, parameter)
    if is_document(operation, parameter):
        return _file_text(str(given))
    if parameter.nullable and given == "null":
        return None
    match parameter.kind:
        case "object" | "any":
            return _unwrapped(parse_value(given, option), parameter)
        case "map":
            return _table(given, option)
        case "list":
            return _list(given, parameter, option)
        case _:
            value: JsonValue = given
            return value


def _file_text(path: str) -> str:
    source = read_path(path)
    if isinstance(source, Unreadable):
        raise UsageError(f"--file: {source.label}: {source.message}")
    return source.text


def _unwrapped(value: JsonValue, parameter: Parameter) -> JsonValue:
    """The value alone: `export` wraps it in the member that `import` takes."""
    if isinstance(value, dict) and set(value) == {parameter.name}:
        return value[parameter.name]
    return value


def _table(given: list[str], option: str) -> JsonObject:
    found: JsonObject = {}
    for text in given:
        if text.startswith(("{", "@")):
            members = parse_value(text, option)
            if not isinstance(members, dict):
                raise UsageError(f"{option} takes KEY=VALUE or an object")
            found.update(members)
            continue
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} takes KEY=VALUE, not {text!r}")
        found[name] = value
    return found


def _list(given: list[str], parameter: Parameter, option: str) -> list[JsonValue]:
    found: list[JsonValue] = []
    for text in given:
        if parameter.items == "text" and not text.startswith(("[", "@")):
            found.append(text)
            continue
        value = _unwrapped(parse_value(text, option), parameter)
        found.extend(value if isinstance(value, list) else [value])
    return found
