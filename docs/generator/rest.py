"""The page about REST: every operation with its arguments, answer and refusals, read from the catalogue."""

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generator.client.views import result_types, view_schemas
from docs.generator.markdown import anchor, code, link, page, prose, table
from docs.generator.operations import catalogue, described_operations
from penstock.base import limits
from penstock.cli.operation_paths import command_of_operation
from penstock.cli.operations.options import option_of
from penstock.cli.tree.commands import find_row
from penstock.client.operations import Operation, Parameter, method_name, resource_attribute
from penstock.operations.catalogue.capability import Capability

__all__ = ["rest_page"]

_PLACES = {"path": "path", "query": "query", "header": "header", "body": "body"}
# Resources that share a group of commands with others, or are called runs there.
_RESOURCES = {
    "approval": "Approvals: calls and questions that wait for a decision.",
    "backup": "Backups that the server makes: make one, list them.",
    "draft": "Drafts: calls that wait for approval.",
    "execution": "Executions: the runs of workflows.",
    "preflight": "Preflights: what a call would do, before you make it.",
    "system": "The server itself.",
}
_KINDS = {"text": "text", "integer": "whole number", "map": "table of texts", "any": "any JSON"}


def rest_page() -> str:
    """Every operation."""
    return page("REST", "the catalogue in `operations`", _parts())


def _parts() -> Iterator[str]:
    yield from _introduction()
    operations = {operation.name: operation for operation in described_operations()}
    resources = dict.fromkeys(operation.resource for operation in operations.values())
    listed = [[link(name, f"#{anchor(name)}"), _group_words(name)] for name in resources]
    yield table(["Resource", "What it is"], listed)
    for resource in resources:
        yield f"## {resource}"
        for capability in catalogue():
            if capability.resource == resource:
                yield from _operation(capability, operations[capability.name])
    yield "## Answers"
    yield (
        "What operations answer with. Members marked with * are always there. A server may add members; do not "
        "rely on there being no others."
    )
    for name, schema in sorted(view_schemas().items()):
        yield f"### {name}"
        yield from _view(schema)


def _introduction() -> Iterator[str]:
    yield (
        "Everything that can be called, at `/api/v0` of a server. `/openapi.json` describes the same for programs, the "
        "[Python client](../guides/python-client.md) has a method for each operation, and the "
        "[command line](cli.md) a command."
    )
    yield "\n".join(
        [
            "- **Keys.** Every call carries `Authorization: Bearer pen_…`. A key has a tenant and scopes; each "
            "operation below names those it needs.",
            "- **Errors** are problem documents (RFC 9457, `application/problem+json`) with a stable `code`; "
            "[the reasons](errors.md) lists them all. `X-Request-ID` names each request.",
            "- **Repeating a call.** With an `Idempotency-Key` a write happens once: the same key again gives the "
            "first answer again (`Idempotency-Replayed: true`), 409 while it is under way, 422 with other arguments.",
            "- **Lists** come in pages: `limit` and `cursor` go in, `items` and `next_cursor` come out; `null` ends "
            f"it. A page has {limits.PAGE_LIMIT_DEFAULT} items unless you say otherwise, and at most "
            f"{limits.PAGE_LIMIT_MAX}.",
            "- **Versions.** Definitions have an `ETag`; send it as `If-Match` to be refused (412) when somebody else "
            "was faster.",
            "- **Waiting.** `sync: true` or `Prefer: wait=N` waits for the end of an execution; when it takes longer, "
            "the answer is 202 with its handle.",
            "- **Streams** are server-sent events: see [events](events.md).",
            "- **Times** are RFC 3339 in UTC with milliseconds, durations texts like `30s` or `2h`.",
        ]
    )


def _group_words(resource: str) -> str:
    if resource in _RESOURCES:
        return _RESOURCES[resource]
    paths = (command_of_operation(item.name) for item in described_operations() if item.resource == resource)
    group = find_row(next(path for path in paths if path is not None).rpartition(" ")[0])
    return prose(group.help) if group is not None else ""


def _operation(capability: Capability, operation: Operation) -> Iterator[str]:
    route = capability.route
    if route is None:
        return
    yield f"### {operation.name}"
    yield f"```text\n{operation.method} {operation.path}\n```"
    yield prose(f"{operation.title}. {operation.description}".strip())
    rows = [_argument(operation, parameter) for parameter in operation.parameters]
    if rows:
        yield table(["Argument (* = required)", "In", "Kind", "Option", "What it is"], rows)
    facts = [f"**Answers** {_answers(capability, route.status, route.other_statuses)}."]
    scopes = ", ".join(map(code, capability.governance.scopes)) or "none; any valid key"
    facts.append(f"**Scopes:** {scopes}.")
    if capability.errors:
        facts.append(f"**Refusals of its own:** {', '.join(map(code, capability.errors))}.")
    method = f"client.{resource_attribute(operation.resource)}.{method_name(operation.action)}(…)"
    path = command_of_operation(operation.name)
    command = "none" if path is None else code(f"penstock {path}")
    facts.append(f"**Command:** {command}; **client:** {code(method)}.")
    yield "\n".join(f"- {fact}" for fact in facts)


def _argument(operation: Operation, parameter: Parameter) -> list[str]:
    name = code(parameter.name) + (" *" if parameter.required else "")
    place = f"header {code(parameter.header)}" if parameter.header else _PLACES[parameter.place]
    words = prose(parameter.description)
    if parameter.default not in (None, [], {}, False):
        words = f"{words} Default: {code(parameter.default)}.".strip()
    return [name, place, _kind(parameter), code(option_of(operation, parameter)), words]


def _kind(parameter: Parameter) -> str:
    if parameter.choices:
        listed = ", ".join(map(code, parameter.choices))
        return f"list of {listed}" if parameter.kind == "list" else listed
    if parameter.kind == "list":
        return f"list of {_KINDS.get(parameter.items or 'any', str(parameter.items))}s"
    return _KINDS.get(parameter.kind, parameter.kind)


def _answers(capability: Capability, status: int, others: tuple[int, ...]) -> str:
    names = result_types(capability.output_schema)
    if not names:
        return f"{status} with a stream of [events](events.md)"
    listed = " or ".join(link(code(name), f"#{anchor(name)}") if name.isidentifier() else "an object" for name in names)
    statuses = " or ".join(str(item) for item in (status, *others))
    return f"{statuses} with {listed}"


def _view(schema: Mapping[str, Any]) -> Iterator[str]:
    yield prose(schema.get("description") or "")
    required = set(schema.get("required") or ())
    rows = [
        [code(name) + (" *" if name in required else ""), _member_kind(given), prose(given.get("description") or "")]
        for name, given in (schema.get("properties") or {}).items()
    ]
    if rows:
        yield table(["Member", "Kind", "What it is"], rows)


def _member_kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return link(code(name), f"#{anchor(name)}")
    options = schema.get("anyOf")
    if options:
        return " or ".join(_member_kind(option) for option in options)
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    named = schema.get("type")
    if named == "array":
        return f"list of {_member_kind(schema.get('items') or {})}"
    if named == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"table of {_member_kind(schema['additionalProperties'])}"
    words = {"string": "text", "integer": "whole number"}
    return words.get(str(named), str(named)) if named else "any JSON"
