"""Checks of secret answers and secret input: expressions may read them only where an executor fills them in.

When a schema says `writeOnly` or `format: password`, the value is not in the history, and jq sees `***` in its place.
An expression that computes with it would compute with `***`. So a secret may only be a whole value, or part of a text
without other jq. It may be in the fields of an activity, where the executor fills it in, or in the output of an `end`,
which may show the `***`.

Above it: `expressions`. Below it: `definitions.secret_answers`, compiled expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.base.json import JsonObject
from penstock.definitions.jq.expressions import Expression, compile_expression
from penstock.definitions.jq.reads import Reads
from penstock.definitions.node_parts.jq_places import JqPlace, field_pointer
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import Outline, OutlineNode, gives_result
from penstock.definitions.outline.jq_leaves import Leaf, Query, Text
from penstock.definitions.secret_answers import ANY_MEMBER, secret_paths
from penstock.definitions.source.findings import Finding

__all__ = ["secret_answer_findings"]

_CODE = "SECRET_ANSWER_NOT_ALLOWED"
_INPUT_CODE = "SECRET_INPUT_NOT_ALLOWED"
_INPUT = "input"
_HINT = (
    "use it in a field of an activity as a value of its own, `${ .node.member }`, or in a text without other jq; "
    "compute anything derived from it in the step"
)

_Paths = Mapping[str, tuple[tuple[str, ...], ...]]


def secret_answer_findings(
    document: JsonObject, outline: Outline, places: Iterable[tuple[JqPlace, tuple[Leaf, ...]]]
) -> Iterator[Finding]:
    """Yield every use of a secret answer, or of secret input, that cannot work."""
    secret: dict[str, tuple[tuple[str, ...], ...]] = {}
    schema = document.get(_INPUT)
    if outline.native and isinstance(schema, dict) and (paths := secret_paths(schema)):
        secret[_INPUT] = paths
    for node in outline.nodes:
        if not outline.native:
            yield from _published_input(document, node)
        kind = kind_named(node.type)
        answers = kind.answer_fields if kind is not None else ()
        name = next((item for item in answers if isinstance(node.fields.get(item), dict)), None)
        schema = node.fields.get(name) if name is not None else None
        if name is None or not isinstance(schema, dict) or not (paths := secret_paths(schema)):
            continue
        if not outline.native:
            message = f"`{node.id}` asks for a secret, which activities of published documents cannot receive"
            hint = "write the workflow in the native format, or leave out `writeOnly` and `format: password`"
            yield Finding(code=_CODE, message=message, path=field_pointer(document, node, name), hint=hint)
        secret[node.id] = paths
    if secret and outline.native:
        for place, leaves in places:
            if place.body is not None:
                yield from (finding for leaf in leaves for finding in _misuses(leaf, place, secret))


def _published_input(document: JsonObject, node: OutlineNode) -> Iterator[Finding]:
    """The input of a published document becomes its state, which jq reads and writes."""
    schema = node.fields.get("input_schema")
    if isinstance(schema, dict) and secret_paths(schema):
        message = "the input has a secret, which activities of published documents cannot receive"
        hint = "write the workflow in the native format, or leave out `writeOnly` and `format: password`"
        path = field_pointer(document, node, "input_schema")
        yield Finding(code=_INPUT_CODE, message=message, path=path, hint=hint)


def _misuses(leaf: Leaf, place: JqPlace, secret: _Paths) -> Iterator[Finding]:
    programs = (leaf.program,) if isinstance(leaf, Query) else leaf.programs if isinstance(leaf, Text) else ()
    expressions = [item for item in map(compile_expression, programs) if isinstance(item, Expression)]
    read = [item for item in expressions if any(_touched(item, secret))]
    if not read:
        return
    if place.allows_secrets or (place.node is not None and gives_result(place.node)):
        is_plain = isinstance(leaf, Query) and _is_filled(read[0], secret)
        is_text = isinstance(leaf, Text) and all(_is_place(item, secret) for item in expressions)
        if is_plain or is_text:
            return
    name = next(_touched(read[0], secret))
    code, what = (_INPUT_CODE, "secret input") if name == _INPUT else (_CODE, f"secret answer of `{name}`")
    message = f"the {what} cannot be used here: expressions see `***` in its place"
    yield Finding(code=code, message=message, path=leaf.path, hint=_HINT)


def _touched(expression: Expression, secret: _Paths) -> Iterator[str]:
    """The nodes whose secret answers an expression may read."""
    for name, paths in secret.items():
        if expression.reads is None or any(_is_read(expression.reads, (name, *path)) for path in paths):
            yield name


def _is_read(reads: Reads, path: tuple[str, ...]) -> bool:
    for name in path:
        if reads.whole:
            return True
        if name == ANY_MEMBER:
            return bool(reads.members)
        if name not in reads.members:
            return False
        reads = reads.members[name]
    return True


def _is_filled(expression: Expression, secret: _Paths) -> bool:
    """Whether an executor fills in an expression's value: it is the path of a secret or of a value around one."""
    read = expression.path
    if not read:
        return False
    return not any(_leads_inside(read[1:], path) for path in secret.get(read[0], ()))


def _leads_inside(read: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a path continues inside a secret, whose content is unknown."""
    return len(read) > len(path) and all(name in (ANY_MEMBER, part) for name, part in zip(path, read, strict=False))


def _is_place(expression: Expression, secret: _Paths) -> bool:
    read = expression.path
    return bool(read) and read is not None and read[1:] in secret.get(read[0], ())
