"""The jq inside a place, piece by piece: expressions, texts, literals, secrets and mistakes, each with its pointer.

Above it: `checks.expressions` reports the mistakes and the unknown names, `checks.types` asks for the type of an
expression's value. Below it: `jq_places`, and the compilers of expressions and templates. All mistakes of a template
are found, not only the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.base.limits import DOCUMENT_EXPRESSIONS_MAX
from penstock.definitions.jq.expressions import ExpressionProblem, compile_expression
from penstock.definitions.jq.templates import (
    LiteralTemplate,
    QueryTemplate,
    SecretTemplate,
    TemplateProblem,
    TextTemplate,
    compile_template,
    template_expressions,
)
from penstock.definitions.jq.text import forbidden_uses
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace
from penstock.definitions.outline.document import Outline
from penstock.definitions.outline.jq_places import jq_places_of

__all__ = [
    "Collected",
    "JsonLeaf",
    "Leaf",
    "Mistake",
    "Query",
    "SecretText",
    "Text",
    "collect_leaves",
    "leaf_of",
    "leaves_of",
]

# How messages of the template compiler begin when the mistake is not in the jq itself; a test checks that they do.
_TEMPLATE_MESSAGES = ("`${` without", "a text with a secret")
# What belongs around jq in a value, or in the templates of other tools.
_MARKS = re.compile(r"\$\{\s*(.*?)\s*\}|\{\{\s*(.*?)\s*\}\}")
_SPACED_SECRET = re.compile(r"\$\{\s+secret\s*:|\$\{secret\s+:|\$\{secret:\s")


@dataclass(frozen=True, slots=True)
class Query:
    """A value that is computed by an expression."""

    path: str
    program: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text that contains expressions."""

    path: str
    programs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecretText:
    """A text that refers to secrets."""

    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonLeaf:
    """A value without jq."""

    path: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Mistake:
    """jq that cannot be used."""

    path: str
    code: str
    message: str
    hint: str | None


Leaf: TypeAlias = Query | Text | SecretText | JsonLeaf | Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The places of a document with their pieces; not `complete` when the document has too many expressions."""

    places: tuple[tuple[JqPlace, tuple[Leaf, ...]], ...]
    complete: bool


def collect_leaves(document: JsonObject, outline: Outline) -> Collected:
    """Collect every place with its pieces, as far as the limit on expressions allows."""
    remaining = DOCUMENT_EXPRESSIONS_MAX
    places: list[tuple[JqPlace, tuple[Leaf, ...]]] = []
    for place in jq_places_of(document, outline):
        leaves: list[Leaf] = []
        for leaf in leaves_of(place):
            remaining -= _expressions_in(leaf)
            if remaining < 0:
                return Collected(places=tuple(places), complete=False)
            leaves.append(leaf)
        places.append((place, tuple(leaves)))
    return Collected(places=tuple(places), complete=True)


def _expressions_in(leaf: Leaf) -> int:
    match leaf:
        case Text(programs=programs):
            return len(programs)
        case Query() | Mistake():
            return 1
        case SecretText() | JsonLeaf():
            return 0


def leaves_of(place: JqPlace) -> Iterator[Leaf]:
    """Yield every piece of a place, in order."""
    match place.form:
        case JqForm.JQ:
            yield _query(str(place.value), place.path)
        case JqForm.TEMPLATE:
            yield from _template_leaves(place.value, place.path)
        case JqForm.MAPPING:
            members = place.value if isinstance(place.value, dict) else {}
            for key, value in members.items():
                yield _mapping_leaf(value, place.path + json_pointer((key,)))


def leaf_of(value: JsonValue, path: str) -> Leaf | None:
    """Return the single piece that a template value is, or None for an object or a list with pieces inside."""
    if isinstance(value, dict):
        if set(value) == {"jq"} and isinstance(program := value["jq"], str):
            return _query(program, f"{path}/jq")
        if set(value) == {"literal"}:
            return JsonLeaf(f"{path}/literal", value["literal"])
        return None
    if isinstance(value, list):
        return None
    return _text(value, path) if isinstance(value, str) else JsonLeaf(path, value)


def _template_leaves(value: JsonValue, path: str) -> Iterator[Leaf]:
    leaf = leaf_of(value, path)
    if leaf is not None:
        yield leaf
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _template_leaves(member, path + json_pointer((key,)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _template_leaves(item, f"{path}/{index}")


def _mapping_leaf(value: JsonValue, path: str) -> Leaf:
    """A member of a published mapping: jq as the whole value, or a literal."""
    if isinstance(value, dict):
        leaf = leaf_of(value, path)
        return leaf if leaf is not None else JsonLeaf(path, value)
    if isinstance(value, str) and (stripped := value.strip()).startswith("${") and stripped.endswith("}"):
        return _query(stripped[2:-1].strip(), path)
    return JsonLeaf(path, value)


def _query(program: str, path: str) -> Leaf:
    compiled = compile_expression(program)
    if isinstance(compiled, ExpressionProblem):
        plain = _without_marks(program)
        if plain is not None:
            field = path.rpartition("/")[2]
            line = plain if field.isdecimal() else f"{field}: {plain}"
            return Mistake(path, "JQ_INVALID", "this is plain jq, without `${ }` or `{{ }}`", f"write `{line}`")
        code = "JQ_FORBIDDEN" if forbidden_uses(program) else "JQ_INVALID"
        return Mistake(path, code, _about_jq(compiled.message, code), compiled.hint)
    return Query(path, program)


def _without_marks(program: str) -> str | None:
    """The program without `${ }` and `{{ }}`, if it is one then."""
    plain = _MARKS.sub(lambda found: found[1] or found[2] or "", program).strip()
    if plain == program.strip():
        return None
    for candidate in (plain, f".{plain}"):
        if not isinstance(compile_expression(candidate), ExpressionProblem):
            return candidate
    return None


def _about_jq(message: str, code: str) -> str:
    return message if code == "JQ_FORBIDDEN" else f"the jq expression does not compile: {message}"


def _text(text: str, path: str) -> Leaf:
    template = compile_template(text)
    match template:
        case TemplateProblem(message=message, hint=hint):
            return _template_mistake(text, message, hint, path)
        case QueryTemplate(expression=expression):
            return Query(path, expression.text)
        case TextTemplate():
            return Text(path, tuple(expression.text for expression in template_expressions(template)))
        case SecretTemplate(names=names):
            return SecretText(path, names)
        case LiteralTemplate(value=value):
            return JsonLeaf(path, value)
        case _:
            return JsonLeaf(path, text)


def _template_mistake(text: str, message: str, hint: str | None, path: str) -> Mistake:
    if _SPACED_SECRET.search(text):
        return Mistake(path, "TEMPLATE_INVALID", "a secret is referred to without spaces", "write ${secret:NAME}")
    if message.startswith(_TEMPLATE_MESSAGES):
        return Mistake(path, "TEMPLATE_INVALID", message, hint)
    code = "JQ_FORBIDDEN" if "not allowed in an expression" in message else "JQ_INVALID"
    return Mistake(path, code, _about_jq(message, code), hint)
