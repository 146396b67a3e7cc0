"""The resources of the Python client: a typed method for every operation, asynchronous and synchronous."""

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from docs.generator.client.sync import sync_source
from docs.generator.client.views import HEADER, LINE_MAX, module_of, result_types, view_modules
from docs.generator.operations import catalogue, described_operations
from penstock.client.operations import Operation, Parameter, method_name, resource_attribute

__all__ = ["client_files"]

CLIENT = Path(__file__).parents[3] / "src" / "penstock" / "client"
# Modules of `client/asynchronous` that the synchronous client has too.
_WRITTEN_BY_HAND = ("client", "connection", "executions")
# Resources with methods of their own, which call the generated ones.
_EXTENDED = frozenset({"execution"})
# Longer lists of values are easier to read in the documentation than in a signature.
_CHOICES_MAX = 5
_TYPES = {"text": "str", "integer": "int", "number": "float", "boolean": "bool", "any": "Any"}


def client_files() -> dict[str, str]:
    """Every generated file of the client, by its path below `src/penstock/client`."""
    found = {f"generated/views/{name}.py": text for name, text in view_modules().items()}
    for resource in _resources():
        module = resource_attribute(resource)
        awaited = _resource_module(resource)
        found[f"generated/asynchronous/{module}.py"] = awaited
        found[f"generated/sync/{module}.py"] = sync_source(awaited)
    found["asynchronous/resources.py"] = _all_resources()
    found["sync/resources.py"] = sync_source(_all_resources())
    for name in _WRITTEN_BY_HAND:
        found[f"sync/{name}.py"] = _waiting(name)
    return found


def _waiting(name: str) -> str:
    """A module of the synchronous client whose asynchronous original is written by hand."""
    source = (CLIENT / "asynchronous" / f"{name}.py").read_text(encoding="utf-8")
    head, end, rest = sync_source(source).partition('"""\n\nfrom __future__')
    return f"{head}\nMade by `scripts/docs` from `asynchronous/{name}.py`.\n{end}{rest}"


def _resources() -> list[str]:
    return list(dict.fromkeys(operation.resource for operation in described_operations()))


def _class(resource: str) -> str:
    return "Async" + "".join(word.capitalize() for word in resource_attribute(resource).split("_"))


def _operations(resource: str) -> list[tuple[Operation, tuple[str, ...]]]:
    results = {capability.name: result_types(capability.output_schema) for capability in catalogue()}
    return [(item, results[item.name]) for item in described_operations() if item.resource == resource]


def _resource_module(resource: str) -> str:
    operations = _operations(resource)
    methods = "\n\n".join(_indent(method, 1) for item, results in operations for method in _methods(item, results))
    name = _class(resource)
    views = {view for _, results in operations for view in results if view.isidentifier()}
    views |= {view for item, results in operations if item.paged for view in [_item_type(results[0])]}
    lines = [
        f'"""Operations on {resource}, awaited. {HEADER}"""',
        "",
        "from __future__ import annotations",
        "",
        *_standard_imports(methods),
        *(["from msgspec import UNSET, UnsetType", ""] if "UNSET" in methods else []),
        "from penstock.client.caller import AsyncCaller",
        *(["from penstock.client.events import StreamEvent"] if "StreamEvent" in methods else []),
        *_view_imports(views),
        "",
        f'__all__ = ["{name}"]',
        "",
        "",
        f"class {name}:",
        f'    """Operations on {resource}."""',
        "",
        "    def __init__(self, caller: AsyncCaller) -> None:",
        "        self._caller = caller",
        "",
        methods,
        "",
    ]
    return "\n".join(lines)


def _standard_imports(methods: str) -> list[str]:
    abstract = [name for name in ("AsyncIterator", "Mapping", "Sequence") if f"{name}[" in methods]
    typing = [name for name in ("Any", "Literal") if any(f"{name}{end}" in methods for end in "[ ],")]
    found = [f"from collections.abc import {', '.join(abstract)}"] if abstract else []
    found += [f"from typing import {', '.join(typing)}"] if typing else []
    return [*found, ""] if found else []


def _view_imports(views: Iterable[str]) -> list[str]:
    modules: dict[str, list[str]] = {}
    for view in sorted(views):
        modules.setdefault(module_of(view), []).append(view)
    return [f"from {module} import {', '.join(names)}" for module, names in sorted(modules.items())]


def _item_type(page: str) -> str:
    """The type of the members of a page."""
    schema = next(
        item.output_schema for item in catalogue() if item.output_schema and item.output_schema.get("title") == page
    )
    properties = schema["properties"]
    if not isinstance(properties, dict):
        raise TypeError(f"{page} has no properties")
    items: dict[str, dict[str, str]] = properties["items"]  # type: ignore[assignment]  # a list of named things
    return items["items"]["$ref"].rpartition("/")[2]


def _methods(operation: Operation, results: tuple[str, ...]) -> Iterator[str]:
    if operation.streams:
        yield _stream_method(operation)
        return
    yield _call_method(operation, results)
    if operation.paged:
        yield _pages_method(operation, results[0])


def _call_method(operation: Operation, results: tuple[str, ...]) -> str:
    more = "" if operation.read_only else ", idempotency_key=idempotency_key"
    arguments = _arguments(operation.parameters)
    if len(results) == 1:
        body = [f'return await self._caller.invoke("{operation.name}", {arguments}, {results[0]}{more})']
    else:
        body = [
            f"answer: {' | '.join(results)} = await self._caller.invoke_any(",
            f'    "{operation.name}", {arguments}, ({", ".join(results)}){more}',
            ")",
            "return answer",
        ]
    signature = _signature(operation, operation.parameters, writes=not operation.read_only)
    head = f"async def {method_name(operation.action)}({signature}) -> {' | '.join(results)}:"
    return "\n".join([head, *_docstring(operation), *(f"    {line}" for line in body)])


def _pages_method(operation: Operation, page: str) -> str:
    parameters = [item for item in operation.parameters if item.name != "cursor"]
    signature = _signature(operation, parameters, writes=False)
    item = _item_type(page)
    name = f"{operation.action}_all"
    head = f"async def {name}({signature}) -> AsyncIterator[{item}]:"
    pages = f'self._caller.pages("{operation.name}", {_arguments(parameters)}, {page})'
    body = [f"async for page in {pages}:", "    for item in page.items:", "        yield item"]
    text = f'    """{operation.title}: all of them; `limit` is the size of a page."""'
    return "\n".join([head, text, *(f"    {line}" for line in body)])


def _stream_method(operation: Operation) -> str:
    signature = _signature(operation, operation.parameters, writes=False)
    head = f"def {method_name(operation.action)}({signature}) -> AsyncIterator[StreamEvent]:"
    body = f'return self._caller.events("{operation.name}", {_arguments(operation.parameters)})'
    return "\n".join([head, *_docstring(operation), f"    {body}"])


def _signature(operation: Operation, parameters: Iterable[Parameter], *, writes: bool) -> str:
    placed = [f"{item.name}: {_type(item)}" for item in parameters if item.place == "path"]
    named = [f"{item.name}: {_type(item)}" for item in parameters if item.place != "path" and item.required]
    named += [_optional(item) for item in parameters if item.place != "path" and not item.required]
    if writes:
        named.append("idempotency_key: str | None = None")
    return ", ".join(["self", *placed, *(["*", *named] if named else [])])


def _optional(parameter: Parameter) -> str:
    if parameter.nullable:
        return f"{parameter.name}: {_type(parameter)} | UnsetType | None = UNSET"
    if parameter.kind == "any":
        return f"{parameter.name}: Any = None"
    return f"{parameter.name}: {_type(parameter)} | None = None"


def _type(parameter: Parameter) -> str:
    if parameter.kind == "list":
        items = "Mapping[str, Any]" if parameter.items in ("object", "map") else _TYPES[parameter.items or "any"]
        one = _literal(parameter.choices) or items
        return f"{one} | Sequence[{one}]"
    if parameter.kind == "object":
        return "Mapping[str, Any]"
    if parameter.kind == "map":
        return "Mapping[str, str]"
    return _literal(parameter.choices) or _TYPES[parameter.kind]


def _literal(choices: tuple[str, ...]) -> str:
    return f"Literal[{', '.join(map(_quoted, choices))}]" if 0 < len(choices) <= _CHOICES_MAX else ""


def _quoted(text: str) -> str:
    return f'"{text}"'


def _arguments(parameters: Iterable[Parameter]) -> str:
    return "{" + ", ".join(f'"{item.name}": {item.name}' for item in parameters) + "}"


def _docstring(operation: Operation) -> list[str]:
    rest = textwrap.wrap(operation.description, LINE_MAX - 12)
    if not rest:
        return [f'    """{operation.title}."""']
    return [f'    """{operation.title}.', "", *(f"    {line}" for line in rest), '    """']


def _indent(text: str, depth: int) -> str:
    return textwrap.indent(text, "    " * depth)


def _all_resources() -> str:
    """The module that puts the resources of a client together."""
    resources = _resources()
    imports = sorted(f"from {_home(resource)} import {_class(resource)}" for resource in resources)
    made = [f"self.{resource_attribute(item)} = {_class(item)}(caller)" for item in resources]
    return "\n".join(
        [
            f'"""Everything that a client can do, by resource. {HEADER}"""',
            "",
            "from __future__ import annotations",
            "",
            "from penstock.client.caller import AsyncCaller",
            *imports,
            "",
            '__all__ = ["AsyncResources"]',
            "",
            "",
            "class AsyncResources:",
            '    """A member for each resource."""',
            "",
            "    def __init__(self, caller: AsyncCaller) -> None:",
            *(f"        {line}" for line in made),
            "",
        ]
    )


def _home(resource: str) -> str:
    package = "penstock.client" if resource in _EXTENDED else "penstock.client.generated"
    return f"{package}.asynchronous.{resource_attribute(resource)}"
