"""The table of operations for the client and the command line: names, places of arguments, descriptions.

Read from `operations.json`, which `scripts/docs` generates from the server's catalogue; nothing of the server is
imported.

Above it: the call layer, the command line. Below it: the file.
"""

from __future__ import annotations

import keyword
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.base.errors import NotFound

__all__ = ["Kind", "Operation", "Parameter", "find_operation", "method_name", "operation_table", "resource_attribute"]

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "object", "map", "list", "any"]


# Resources that exist once have no plural.
_SINGULAR = frozenset({"audit", "control", "system"})


def resource_attribute(resource: str) -> str:
    """Return the attribute name of a resource in a client: `client.workflows`."""
    if resource in _SINGULAR:
        return resource
    return f"{resource.removesuffix('y')}ies" if resource.endswith(("ry", "cy")) else f"{resource}s"


def method_name(action: str) -> str:
    """Return the method name of an operation in a client's resource."""
    return f"{action}_" if keyword.iskeyword(action) else action


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument of an operation.

    `items` is the kind of the members of a list. `nullable` means that null differs from leaving the argument out;
    otherwise an argument that is `None` is left out. `header` is the header's name if the place is a header.
    """

    name: str
    kind: Kind
    place: Literal["path", "query", "header", "body"] = "body"
    items: Kind | None = None
    description: str = ""
    required: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None
    header: str | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operation, and its method and path in REST below the base path."""

    name: str
    title: str
    description: str
    method: str
    path: str
    parameters: tuple[Parameter, ...] = ()
    whole_body: str | None = None
    read_only: bool = False
    destructive: bool = False
    streams: bool = False
    paged: bool = False

    @property
    def resource(self) -> str:
        """The resource: the first part of the name."""
        return self.name.partition(".")[0]

    @property
    def action(self) -> str:
        """The action: the second part of the name."""
        return self.name.partition(".")[2]

    @property
    def waits(self) -> bool:
        """Whether the answer may take as long as the caller says."""
        return any(parameter.name in ("sync", "wait_seconds") for parameter in self.parameters)


@cache
def operation_table() -> dict[str, Operation]:
    """Return every operation by name."""
    content = Path(__file__).with_name("operations.json").read_bytes()
    return {item.name: item for item in msgspec.json.decode(content, type=list[Operation])}


def find_operation(name: str) -> Operation:
    """Find an operation by name; an unknown name is an error that suggests similar ones."""
    table = operation_table()
    found = table.get(name)
    if found is None:
        near = get_close_matches(name, table, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "list the operations with `system.operations`"
        raise NotFound("OPERATION_NOT_FOUND", f"there is no operation {name[:100]}", hint)
    return found
