"""Where jq may stand in a node, and what each place is for.

A node type lists readers, which find the places in a node: `expression` and `template` for single fields, `mapping` for
a published mapping. Types with places of their own write a reader. A field of the wrong type is left out, because the
schema check reports it.

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
    """What the value of a place is used as, where its type can be checked before anything runs."""

    STATE = "state"  # written to the state key that the place assigns
    RESULT = "result"  # the result of the run
    NEXT_INPUT = "next_input"  # the input of the next run of this definition
    ARRAY = "array"
    STRING = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class JqPlace:
    """A value that may contain jq.

    `body` is the body whose nodes it can read (None: its root is not the run's data), `assigns` the state key that a
    `set_state` writes with it.
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


# Finds the places in a node of a document.
JqReader: TypeAlias = Callable[[JsonObject, OutlineNode], Iterator[JqPlace]]


def field_pointer(document: JsonObject, node: OutlineNode, name: str) -> str:
    """The JSON pointer of a node's field, beside `id` or inside `config`."""
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
    """The place that one field of a node is, if it is there."""
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
    """A field that is jq as it stands."""
    return lambda document, node: field_place(document, node, name, JqForm.JQ, purpose=purpose)


def template(name: str, purpose: Purpose | None = None, *, allows_secrets: bool = False) -> JqReader:
    """A field that is a template."""
    return lambda document, node: field_place(
        document, node, name, JqForm.TEMPLATE, purpose=purpose, allows_secrets=allows_secrets
    )


def mapping(name: str) -> JqReader:
    """A field that is a mapping of the published format."""
    return lambda document, node: field_place(document, node, name, JqForm.MAPPING)
