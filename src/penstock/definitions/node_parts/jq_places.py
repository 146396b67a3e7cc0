"""Where jq may occur in a node, and what each place is used for.

A node type lists readers, which find the places in a node: `expression` and `template` for single fields, `mapping` for
a published mapping. Node types with other places write their own reader. A field of the wrong type is left out, because
the schema check reports it.

Above it: `nodes`, and `outline.jq_places`, which walks a whole document. It compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.node_parts.outline import OutlineNode

__all__ = [
    "JqForm",
    "JqPlace",
    "JqReader",
    "Purpose",
    "expression",
    "field_place",
    "field_pointer",
    "mapping",
    "template",
]


class JqForm(StrEnum):
    """How jq is written at a place."""

    JQ = "jq"  # the whole string is an expression
    TEMPLATE = "template"  # any JSON with `${ }` and {"jq": …} in it
    MAPPING = "mapping"  # a published mapping: one level, whole values only


class Purpose(StrEnum):
    """How the value of a place is used, where its type can be checked before anything runs."""

    STATE = "state"  # written to the state key that the place assigns
    RESULT = "result"  # the result of the run
    NEXT_INPUT = "next_input"  # the input of the next run of this definition
    ARRAY = "array"
    STRING = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class JqPlace:
    """A value that may contain jq.

    `body` is the body whose nodes it can read (None if its root is not the run's data). `assigns` is the state key that
    a `set_state` node writes with it.
    """

    name: str
    form: JqForm
    value: JsonValue
    path: str
    node: OutlineNode | None = None
    body: str | None = None
    assigns: str | None = None
    purpose: Purpose | None = None
    allows_secrets: bool = False


# Finds the places in one node of a document.
JqReader: TypeAlias = Callable[[JsonObject, OutlineNode], Iterator[JqPlace]]


def field_pointer(document: JsonObject, node: OutlineNode, name: str) -> str:
    """The JSON pointer of a node's field, which is either beside `id` or inside `config`."""
    written: JsonValue = document
    for part in node.path.split("/")[1:]:
        if isinstance(written, list):
            written = written[int(part)] if part.isdecimal() and int(part) < len(written) else None
        elif isinstance(written, dict):
            written = written.get(part)
    beside = isinstance(written, dict) and name in written
    return node.path + json_pointer((name,) if beside else ("config", name))


def field_place(
    document: JsonObject,
    node: OutlineNode,
    name: str,
    form: JqForm,
    *,
    purpose: Purpose | None = None,
    allows_secrets: bool = False,
) -> Iterator[JqPlace]:
    """Yield one field of a node as a place, if the field exists."""
    value = node.fields.get(name)
    if name not in node.fields or (form is JqForm.JQ and not isinstance(value, str)):
        return
    yield JqPlace(
        name=name,
        form=form,
        value=value,
        path=field_pointer(document, node, name),
        node=node,
        body=node.body,
        purpose=purpose,
        allows_secrets=allows_secrets,
    )


def expression(name: str, purpose: Purpose | None = None) -> JqReader:
    """A reader for a field that is jq as a whole."""
    return lambda document, node: field_place(document, node, name, JqForm.JQ, purpose=purpose)


def template(name: str, purpose: Purpose | None = None, *, allows_secrets: bool = False) -> JqReader:
    """A reader for a field that is a template."""
    return lambda document, node: field_place(
        document, node, name, JqForm.TEMPLATE, purpose=purpose, allows_secrets=allows_secrets
    )


def mapping(name: str) -> JqReader:
    """A reader for a field that is a mapping of the published format."""
    return lambda document, node: field_place(document, node, name, JqForm.MAPPING)
