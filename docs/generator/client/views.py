"""The types of answers for the Python client, made from the output schemas of the catalogue.

One module for each resource; types of several resources are in `shared`. Types are tolerant: a member that a newer
server adds is ignored, and a text with a fixed set of values is typed as any text.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from docs.generator.operations import catalogue

__all__ = ["HEADER", "LINE_MAX", "module_of", "result_types", "view_modules", "view_schemas"]

LINE_MAX = 120
HEADER = "Made by `scripts/docs` from the catalogue."
_SHARED = "shared"
_SHARED_BY_MIN = 3
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


@cache
def view_schemas() -> Mapping[str, Any]:
    """Every named schema of an answer."""
    found: dict[str, Any] = {}
    for capability in catalogue():
        for name, schema in _named(capability.output_schema):
            if found.setdefault(name, schema) != schema:
                raise ValueError(f"two different types are called {name}, one of them in {capability.name}")
    return found


def _named(schema: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    if schema is None:
        return
    yield from (schema.get("$defs") or {}).items()
    if "title" in schema:
        yield schema["title"], {name: value for name, value in schema.items() if name != "$defs"}


def result_types(schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The types of an answer, the most complete first."""
    if schema is None:
        return ()
    if "title" in schema:
        return (schema["title"],)
    names = [_reference(option) for option in schema.get("anyOf") or ()]
    if names:
        return tuple(sorted(names, key=lambda name: -len(view_schemas()[name]["required"])))
    return ("dict[str, Any]",)


def _reference(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


@cache
def _owners() -> Mapping[str, str]:
    """The resource that each type belongs to."""
    uses: dict[str, Counter[str]] = {}
    for capability in catalogue():
        for name in result_types(capability.output_schema):
            if name in view_schemas():
                uses.setdefault(name, Counter())[capability.resource] += 1
    owners = {name: _owner(name, counted) for name, counted in uses.items()}
    pending = list(owners)
    while pending:
        name = pending.pop(0)
        for inner in _references(view_schemas()[name]):
            if inner not in owners:
                owners[inner] = owners[name]
                pending.append(inner)
    return owners


def _owner(name: str, uses: Counter[str]) -> str:
    named = [resource for resource in uses if name.lower().startswith(resource)]
    if named:
        return named[0]
    return _SHARED if len(uses) >= _SHARED_BY_MIN else uses.most_common(1)[0][0]


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield _reference(schema)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def module_of(view: str) -> str:
    """The module that a type is in."""
    return f"penstock.client.generated.views.{_owners()[view]}"


def view_modules() -> dict[str, str]:
    """The modules with types, by their name."""
    modules: dict[str, list[str]] = {}
    for name, owner in _owners().items():
        modules.setdefault(owner, []).append(name)
    return {owner: _module(owner, names) for owner, names in sorted(modules.items())}


def _module(owner: str, names: list[str]) -> str:
    ordered = _inner_first(names)
    body = "\n\n\n".join(_struct(name) for name in ordered)
    elsewhere: dict[str, set[str]] = {}
    for name in names:
        for inner in _references(view_schemas()[name]):
            if _owners()[inner] != owner:
                elsewhere.setdefault(module_of(inner), set()).add(inner)
    imports = [f"from {module} import {', '.join(sorted(views))}" for module, views in sorted(elsewhere.items())]
    exported = ", ".join(f'"{name}"' for name in sorted(names))
    what = "several resources" if owner == _SHARED else f"operations on {owner}"
    return "\n".join(
        [
            f'"""What {what} answer with. {HEADER}"""',
            "",
            "from __future__ import annotations",
            "",
            *(["from typing import Any", ""] if "Any" in body else []),
            "import msgspec",
            *(["", *imports] if imports else []),
            "",
            f"__all__ = [{exported}]",
            "",
            "",
            body,
            "",
        ]
    )


def _inner_first(names: list[str]) -> list[str]:
    found: list[str] = []

    def visit(name: str) -> None:
        if name in found or name not in names:
            return
        for inner in _references(view_schemas()[name]):
            if inner != name:
                visit(inner)
        found.append(name)

    for name in sorted(names):
        visit(name)
    return found


def _struct(name: str) -> str:
    schema = view_schemas()[name]
    required = set(schema.get("required") or ())
    lines = [f"class {name}(msgspec.Struct, frozen=True, kw_only=True):"]
    text = textwrap.wrap(schema.get("description") or f"{name}.", LINE_MAX - 10)
    lines.extend([f'    """{text[0]}"""'] if len(text) == 1 else [f'    """{text[0]}', *_indented(text[1:]), '    """'])
    lines.append("")
    for member, given in (schema.get("properties") or {}).items():
        lines.append(f"    {member}: {_python_type(given)}{'' if member in required else _default(given)}")
        if given.get("description"):
            lines.extend(f"    {line}" for line in _member_text(given["description"]))
    if not schema.get("properties"):
        lines.pop()
    return "\n".join(lines)


def _member_text(text: str) -> list[str]:
    wrapped = textwrap.wrap(text, LINE_MAX - 10)
    return [f'"""{wrapped[0]}"""'] if len(wrapped) == 1 else [f'"""{wrapped[0]}', *wrapped[1:], '"""']


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if isinstance(value, list):
        return " = msgspec.field(default_factory=list)"
    if isinstance(value, dict):
        return " = msgspec.field(default_factory=dict)"
    return f" = {value!r}"


def _python_type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _reference(schema)
    options = schema.get("anyOf")
    if options:
        return " | ".join(dict.fromkeys(_python_type(option) for option in options))
    named = schema.get("type")
    if named == "array":
        items = schema.get("items")
        return f"list[{_python_type(items)}]" if isinstance(items, dict) else "list[Any]"
    if named == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_python_type(values)}]" if isinstance(values, dict) else "dict[str, Any]"
    if isinstance(named, str):
        return _TYPES[named]
    return "str" if "enum" in schema else "Any"
