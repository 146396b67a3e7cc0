"""The operations of the catalogue as plain data, for the client, the command line and the pages about them."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from penstock.client.operations import Kind, Operation, Parameter
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import Capability, Route

__all__ = ["catalogue", "described_operations", "kind_of", "operations_file", "plain_schema"]

_PATH_NAME = re.compile(r"\{(\w+)\}")
_KINDS: Mapping[str, Kind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "object",
    "array": "list",
}


@cache
def catalogue() -> tuple[Capability, ...]:
    """Every built-in operation that REST serves, in the order of the resources."""
    return tuple(capability for capability in builtin_operations() if capability.route is not None)


@cache
def described_operations() -> tuple[Operation, ...]:
    """The operations as the client knows them."""
    return tuple(_operation(capability, capability.route) for capability in catalogue() if capability.route is not None)


def operations_file() -> str:
    """`client/operations.json`."""
    text = msgspec.json.encode(described_operations())
    return msgspec.json.format(text, indent=1).decode() + "\n"


def _operation(capability: Capability, route: Route) -> Operation:
    output = capability.output_schema
    members = _properties(output or {})
    parameters = tuple(_parameters(capability, route))
    named = {parameter.name for parameter in parameters}
    return Operation(
        name=capability.name,
        title=capability.title,
        description=_rest_of_description(capability),
        method=route.method,
        path=route.path,
        parameters=parameters,
        whole_body=route.whole_body,
        read_only=capability.annotations.read_only,
        destructive=capability.annotations.destructive,
        streams=output is None,
        paged={"items", "next_cursor"} <= members.keys() and "cursor" in named,
    )


def _rest_of_description(capability: Capability) -> str:
    return capability.description.removeprefix(capability.title).lstrip(". ")


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _parameters(capability: Capability, route: Route) -> Iterator[Parameter]:
    schema: Mapping[str, Any] = capability.input_schema
    properties, required = _properties(schema), set(schema.get("required") or ())
    in_path = _PATH_NAME.findall(route.path)
    headers = {name: header for header, name in route.headers.items()}
    definitions: Mapping[str, Any] = schema.get("$defs") or {}
    for name in [*in_path, *(name for name in properties if name not in in_path)]:
        given = properties[name]
        plain = plain_schema(given, definitions)
        kind, items, choices = kind_of(plain)
        yield Parameter(
            name=name,
            kind=kind,
            place=_place(name, route),
            items=items,
            description=given.get("description") or plain.get("description") or "",
            required=name in required,
            nullable=name not in required and "default" not in given and _takes_null(given),
            choices=choices,
            default=given.get("default"),
            header=headers.get(name),
        )


def _place(name: str, route: Route) -> Literal["path", "query", "header", "body"]:
    if f"{{{name}}}" in route.path:
        return "path"
    if name in route.query:
        return "query"
    return "header" if name in route.headers.values() else "body"


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return any(option.get("type") == "null" for option in schema.get("anyOf") or ())


def plain_schema(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without the alternative `null`, and with references replaced by what they refer to."""
    options = [option for option in schema.get("anyOf") or () if option.get("type") != "null"]
    if len(options) == 1:
        schema = {**options[0], **{name: value for name, value in schema.items() if name not in ("anyOf", "default")}}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return plain_schema(definitions[reference.rpartition("/")[2]], definitions)
    return schema


def kind_of(schema: Mapping[str, Any]) -> tuple[Kind, Kind | None, tuple[str, ...]]:
    """The kind of a value, the kind of its members, and the texts that it may be."""
    named = schema.get("type")
    choices = tuple(str(choice) for choice in schema.get("enum") or ())
    if named is None:
        return ("text", None, choices) if choices else ("any", None, ())
    kind = _KINDS[named] if isinstance(named, str) else "any"
    if kind == "list":
        items, _, choices = kind_of(schema.get("items") or {})
        return kind, items, choices
    values = schema.get("additionalProperties")
    if kind == "object" and isinstance(values, dict) and values.get("type") == "string":
        return "map", None, ()
    return kind, None, choices
