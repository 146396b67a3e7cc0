"""Templates: JSON values that contain jq, compiled once.

``"${ .order.id }"`` gives the value, ``"Refund ${ .input.amount }"`` a text, ``{"jq": "..."}`` the value, ``{"literal":
v}`` v untouched, and ``"${secret:NAME}"`` stays a reference: a secret's value is never known here.

Above it: `build.workflow` compiles templates, the engine renders them. Below it: `expressions` (libjq). It does not
resolve secrets and does not decide what the jq root is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.jq.expressions import (
    Evaluated,
    EvaluationFailed,
    Evaluator,
    Expression,
    ExpressionProblem,
    compile_expression,
    load_expression,
)

__all__ = [
    "ANSWER_REFERENCE",
    "SECRET_MASK",
    "SECRET_REFERENCE",
    "ListTemplate",
    "LiteralTemplate",
    "ObjectTemplate",
    "QueryTemplate",
    "Rendered",
    "SealedPlaces",
    "SecretTemplate",
    "Template",
    "TemplateProblem",
    "TextTemplate",
    "answer_reference",
    "as_text",
    "compile_mapping",
    "compile_template",
    "load_mapping",
    "load_template",
    "render",
    "split_text",
    "template_expressions",
    "template_secrets",
]

# Replaces a secret in a rendered value until an executor fills it in.
SECRET_MASK = "***"
# A reference to a secret answer in the fields of an activity; it holds the answer, sealed by the host that took it.
ANSWER_REFERENCE = re.compile(r"\$\{answer:([A-Za-z0-9_-]*)\}")
SECRET_REFERENCE = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
_WHOLE = re.compile(r"\s*\$\{(?!secret:)(.*)\}\s*", re.DOTALL)
_JSON_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class LiteralTemplate(msgspec.Struct, frozen=True):
    """A value without jq."""

    value: JsonValue


class QueryTemplate(msgspec.Struct, frozen=True):
    """A value that is computed by jq."""

    expression: Expression


class TextTemplate(msgspec.Struct, frozen=True):
    """A text with jq results inside it."""

    parts: tuple[str | Expression, ...]


class SecretTemplate(msgspec.Struct, frozen=True):
    """A text with secret references; rendered as a mask, resolved only by an executor."""

    text: str
    names: tuple[str, ...]


class ObjectTemplate(msgspec.Struct, frozen=True):
    """An object with templates as members."""

    members: tuple[tuple[str, Template], ...]


class ListTemplate(msgspec.Struct, frozen=True):
    """A list with templates as items."""

    items: tuple[Template, ...]


Template: TypeAlias = "LiteralTemplate | QueryTemplate | TextTemplate | SecretTemplate | ObjectTemplate | ListTemplate"


# By node id: the JSON pointers in its output that hold a mask for a secret answer, each with the sealed answer.
SealedPlaces: TypeAlias = Mapping[str, Mapping[str, str]]


class TemplateProblem(msgspec.Struct, frozen=True):
    """jq in a template that does not compile, with its place inside the template."""

    message: str
    path: str
    hint: str | None = None


class Rendered(msgspec.Struct, frozen=True):
    """A rendered template. `secrets` maps JSON pointers to the texts that an executor must fill in."""

    value: JsonValue
    secrets: dict[str, str] = msgspec.field(default_factory=dict)


def compile_template(value: JsonValue) -> Template | TemplateProblem:
    """Compile a template; constant parts are folded into literals, so that rendering them costs nothing."""
    return _Compiler(compile_expression).template(value, ())


def load_template(value: JsonValue) -> Template | TemplateProblem:
    """Like `compile_template`, for a value that was checked before: long expressions are compiled on use."""
    return _Compiler(load_expression).template(value, ())


def load_mapping(value: JsonValue) -> Template | TemplateProblem:
    """Like `compile_mapping`, for a value that was checked before."""
    return _Compiler(load_expression).mapping(value)


def compile_mapping(value: JsonValue) -> Template | TemplateProblem:
    """Compile a published ``input_mapping``: jq only per key, and only where the whole value is an expression."""
    return _Compiler(compile_expression).mapping(value)


class _Compiler:
    """Compiles templates; `expression` compiles the expressions in them."""

    def __init__(self, expression: Callable[[str], Expression | ExpressionProblem]) -> None:
        self._expression = expression

    def mapping(self, value: JsonValue) -> Template | TemplateProblem:
        if not isinstance(value, dict):
            return LiteralTemplate(value)
        members: list[tuple[str, Template]] = []
        for key, member in value.items():
            compiled: Template | TemplateProblem = LiteralTemplate(member)
            if _is_query_object(member):
                compiled = self._query(str(_single(member)), (key,))
            elif isinstance(member, dict) and set(member) == {"literal"}:
                compiled = LiteralTemplate(member["literal"])
            elif isinstance(member, str) and (whole := re.fullmatch(r"\$\{(.*)\}", member.strip(), re.DOTALL)):
                compiled = self._query(whole[1].strip(), (key,))
            if isinstance(compiled, TemplateProblem):
                return compiled
            members.append((key, compiled))
        return _fold(ObjectTemplate(tuple(members)))

    def _query(self, text: str, path: tuple[str | int, ...]) -> Template | TemplateProblem:
        compiled = self._expression(text)
        if isinstance(compiled, ExpressionProblem):
            return TemplateProblem(compiled.message, json_pointer(path), compiled.hint)
        return QueryTemplate(compiled)

    def template(self, value: JsonValue, path: tuple[str | int, ...]) -> Template | TemplateProblem:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list):
            items: list[Template] = []
            for index, item in enumerate(value):
                compiled = self.template(item, (*path, index))
                if isinstance(compiled, TemplateProblem):
                    return compiled
                items.append(compiled)
            return _fold(ListTemplate(tuple(items)))
        if isinstance(value, dict):
            return self._object(value, path)
        return LiteralTemplate(value)

    def _object(self, value: JsonObject, path: tuple[str | int, ...]) -> Template | TemplateProblem:
        if _is_query_object(value):
            return self._query(str(value["jq"]), (*path, "jq"))
        if set(value) == {"literal"}:
            return LiteralTemplate(value["literal"])
        members: list[tuple[str, Template]] = []
        for key, member in value.items():
            compiled = self.template(member, (*path, key))
            if isinstance(compiled, TemplateProblem):
                return compiled
            members.append((key, compiled))
        return _fold(ObjectTemplate(tuple(members)))

    def _text(self, text: str, path: tuple[str | int, ...]) -> Template | TemplateProblem:
        if "${" not in text:
            return LiteralTemplate(text)
        names = tuple(match[1] for match in SECRET_REFERENCE.finditer(text))
        if names:
            if SECRET_REFERENCE.sub("", text).find("${") >= 0:
                return TemplateProblem(
                    "a text with a secret in it cannot also hold jq",
                    json_pointer(path),
                    "put the secret in a field of its own, or compose the text in the step that uses it",
                )
            return SecretTemplate(text, names)
        pieces = list(split_text(text))
        if None in pieces:
            return TemplateProblem("`${` without its closing `}`", json_pointer(path), "write `$${` for a literal `${`")
        return self._pieces([piece for piece in pieces if piece is not None], text, path)

    def _pieces(
        self, pieces: list[tuple[bool, str]], text: str, path: tuple[str | int, ...]
    ) -> Template | TemplateProblem:
        whole = [piece for piece in pieces if piece[0] or piece[1].strip()]
        if len(whole) == 1 and whole[0][0] and _WHOLE.fullmatch(text):
            return self._query(whole[0][1].strip(), path)
        parts: list[str | Expression] = []
        for is_query, content in pieces:
            if not is_query:
                parts.append(content)
                continue
            compiled = self._expression(content.strip())
            if isinstance(compiled, ExpressionProblem):
                return TemplateProblem(compiled.message, json_pointer(path), compiled.hint)
            parts.append(compiled)
        if all(isinstance(part, str) for part in parts):
            return LiteralTemplate("".join(str(part) for part in parts))
        return TextTemplate(tuple(parts))


def _single(value: JsonValue) -> JsonValue:
    return next(iter(value.values())) if isinstance(value, dict) else value


def _is_query_object(value: JsonValue) -> bool:
    return isinstance(value, dict) and set(value) == {"jq"} and isinstance(value["jq"], str)


def _fold(template: ObjectTemplate | ListTemplate) -> Template:
    """Turn a container of literals into one literal."""
    match template:
        case ObjectTemplate(members=members):
            if all(isinstance(member, LiteralTemplate) for _, member in members):
                return LiteralTemplate({key: m.value for key, m in members if isinstance(m, LiteralTemplate)})
        case ListTemplate(items=items):
            if all(isinstance(item, LiteralTemplate) for item in items):
                return LiteralTemplate([item.value for item in items if isinstance(item, LiteralTemplate)])
    return template


def split_text(text: str) -> Iterator[tuple[bool, str] | None]:
    """Split a text into literal and jq pieces; None for an opening that is never closed."""
    position, literal = 0, ""
    while position < len(text):
        if text.startswith("$${", position):
            literal += "${"
            position += 3
        elif text.startswith("${", position):
            end = _closing_brace(text, position + 2)
            if end is None:
                yield None
                return
            if literal:
                yield False, literal
                literal = ""
            yield True, text[position + 2 : end]
            position = end + 1
        else:
            literal += text[position]
            position += 1
    if literal:
        yield False, literal


def _closing_brace(text: str, start: int) -> int | None:
    """The index of the brace that closes an expression; understands jq's strings and nested braces."""
    depth, position, in_string = 1, start, False
    while position < len(text):
        character = text[position]
        if in_string:
            if character == "\\":
                position += 1
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None


def template_expressions(template: Template) -> Iterator[Expression]:
    """Every jq expression of a template, in order."""
    match template:
        case QueryTemplate(expression=expression):
            yield expression
        case TextTemplate(parts=parts):
            yield from (part for part in parts if isinstance(part, Expression))
        case ObjectTemplate(members=members):
            for _, member in members:
                yield from template_expressions(member)
        case ListTemplate(items=items):
            for item in items:
                yield from template_expressions(item)
        case LiteralTemplate() | SecretTemplate():
            return


def template_secrets(template: Template) -> Iterator[str]:
    """The names of the secrets that a template refers to."""
    match template:
        case SecretTemplate(names=names):
            yield from names
        case ObjectTemplate(members=members):
            for _, member in members:
                yield from template_secrets(member)
        case ListTemplate(items=items):
            for item in items:
                yield from template_secrets(item)
        case LiteralTemplate() | QueryTemplate() | TextTemplate():
            return


def render(
    template: Template, root: JsonValue, evaluator: Evaluator, sealed: SealedPlaces | None = None
) -> Rendered | EvaluationFailed:
    """Render a template on a jq root. Secrets become masks, and are listed with their places.

    `sealed` are the places of the root that hold masks instead of secret answers. A template that is just the path of
    such a place, or a text of such paths, is listed like a secret of the document; all other jq sees masks.
    """
    if isinstance(template, LiteralTemplate):
        return Rendered(template.value)
    secrets: dict[str, str] = {}
    outcome = _render(template, root, evaluator, (), secrets)
    if isinstance(outcome, EvaluationFailed):
        return outcome
    value = outcome.value
    if sealed:
        value = _list_sealed(template, value, (), sealed, secrets)
    return Rendered(value, secrets)


def _list_sealed(
    template: Template, value: JsonValue, path: tuple[str | int, ...], sealed: SealedPlaces, secrets: dict[str, str]
) -> JsonValue:
    """List what a rendered template took from sealed places; return its value, with texts that hold a seal masked."""
    match template:
        case QueryTemplate(expression=Expression(path=read)) if read:
            place = json_pointer(path)
            for pointer, seal in sealed.get(read[0], {}).items():
                rest = _below(json_pointer(read[1:]), pointer)
                if rest is not None:
                    secrets[place + rest] = answer_reference(seal)
        case TextTemplate(parts=parts):
            text = _text_of_seals(parts, sealed)
            if text is not None:
                secrets[json_pointer(path)] = text
                return SECRET_MASK
        case ObjectTemplate(members=members) if isinstance(value, dict):
            return {key: _list_sealed(member, value[key], (*path, key), sealed, secrets) for key, member in members}
        case ListTemplate(items=items) if isinstance(value, list):
            return [
                _list_sealed(item, value[index], (*path, index), sealed, secrets) for index, item in enumerate(items)
            ]
        case _:
            pass
    return value


def _below(pointer: str, place: str) -> str | None:
    """The relative pointer from one place to another at or below it, or None."""
    is_below = place == pointer or place.startswith(f"{pointer}/")
    return place[len(pointer) :] if is_below else None


def _text_of_seals(parts: tuple[str | Expression, ...], sealed: SealedPlaces) -> str | None:
    """A text of only literals and secret answers, with references for the answers; None for any other text.

    Data beside a secret could contain something that looks like a reference to another secret.
    """
    text, has_seal = "", False
    for part in parts:
        if isinstance(part, str):
            if "${" in part:
                return None
            text += part
            continue
        read = part.path
        seal = sealed.get(read[0], {}).get(json_pointer(read[1:])) if read else None
        if seal is None:
            return None
        text, has_seal = text + answer_reference(seal), True
    return text if has_seal else None


def answer_reference(seal: str) -> str:
    """The reference that marks where a secret answer belongs."""
    return f"${{answer:{seal}}}"


def _render(
    template: Template, root: JsonValue, evaluator: Evaluator, path: tuple[str | int, ...], secrets: dict[str, str]
) -> Evaluated | EvaluationFailed:
    match template:
        case LiteralTemplate(value=value):
            return Evaluated(value)
        case QueryTemplate(expression=expression):
            return evaluator.evaluate(expression, root)
        case SecretTemplate(text=text):
            secrets[json_pointer(path)] = text
            return Evaluated(SECRET_MASK)
        case TextTemplate(parts=parts):
            return _render_text(parts, root, evaluator)
        case ObjectTemplate(members=members):
            return _render_object(members, root, evaluator, path, secrets)
        case ListTemplate(items=items):
            values: list[JsonValue] = []
            for index, item in enumerate(items):
                outcome = _render(item, root, evaluator, (*path, index), secrets)
                if isinstance(outcome, EvaluationFailed):
                    return outcome
                values.append(outcome.value)
            return Evaluated(values)


def _render_object(
    members: tuple[tuple[str, Template], ...],
    root: JsonValue,
    evaluator: Evaluator,
    path: tuple[str | int, ...],
    secrets: dict[str, str],
) -> Evaluated | EvaluationFailed:
    rendered: dict[str, JsonValue] = {}
    for key, member in members:
        outcome = _render(member, root, evaluator, (*path, key), secrets)
        if isinstance(outcome, EvaluationFailed):
            return outcome
        rendered[key] = outcome.value
    return Evaluated(rendered)


def _render_text(
    parts: tuple[str | Expression, ...], root: JsonValue, evaluator: Evaluator
) -> Evaluated | EvaluationFailed:
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        outcome = evaluator.evaluate(part, root)
        if isinstance(outcome, EvaluationFailed):
            return outcome
        text += as_text(outcome.value)
    return Evaluated(text)


def as_text(value: JsonValue) -> str:
    """Convert a value for use inside a text: strings unchanged, null as nothing, the rest as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else _JSON_ENCODER.encode(value)
