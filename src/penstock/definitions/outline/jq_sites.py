"""Where jq may stand in a document, in either format, with what each place is for.

Above it: `checks.expressions` and `checks.types` look at every site. Below it: `document`. It compiles nothing; a field
of the wrong shape is left out, because the schema check reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.outline.document import Outline, OutlineNode

__all__ = ["ACTIVITY_FIELDS", "Form", "Site", "field_pointer", "sites_of"]

# The fields of each activity that are rendered for whoever does the work; only these may refer to secrets.
ACTIVITY_FIELDS: dict[str, tuple[str, ...]] = {
    "step": ("with",),
    "tool_call": ("arguments",),
    "llm_call": ("system_prompt", "prompt", "user_prompt", "messages"),
    "http": ("url", "headers", "query", "body"),
    "agent_delegate": ("input", "input_mapping"),
}
# The templates of the other native nodes.
_TEMPLATE_FIELDS: dict[str, tuple[str, ...]] = {
    "end": ("output",),
    "interrupt": ("message", "prompt"),
    "wait": ("until",),
    "subworkflow": ("input", "input_mapping"),
    "emit": ("run", "payload"),
    "fail": ("message",),
    "continue_as_new": ("input",),
}


class Form(StrEnum):
    """How jq is written at a site."""

    JQ = "jq"  # the whole string is an expression
    TEMPLATE = "template"  # any JSON with `${ }` and {"jq": …} in it
    MAPPING = "mapping"  # a published mapping: one level, whole values only


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A value that may contain jq.

    `body` is the body whose nodes it can read (None: its root is not the run's data), `assigns` the state key that a
    `set_state` writes with it.
    """

    name: str
    form: Form
    value: JsonValue
    path: str
    node: OutlineNode | None = None
    body: str | None = None
    assigns: str | None = None
    allows_secrets: bool = False


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


def sites_of(document: JsonObject, outline: Outline) -> Iterator[Site]:
    """Every site of a document, in document order of the nodes."""
    for node in outline.nodes:
        if outline.native:
            yield from _native_sites(document, node)
        else:
            yield from _published_sites(document, node)
    if outline.native:
        yield from _fallbacks(document.get("on_error"), "/on_error", node=None, body="")
        yield from _trigger_sites(document.get("triggers"))


def _published_sites(document: JsonObject, node: OutlineNode) -> Iterator[Site]:
    match node.type:
        case "switch":
            yield from _cases(document, node)
        case "end":
            yield from _field(document, node, "output_mapping", Form.JQ)
        case "set_state":
            yield from _members(document, node, "assignments")
        case "subworkflow" | "agent_delegate":
            yield from _field(document, node, "input_mapping", Form.MAPPING)
        case _:
            pass


def _native_sites(document: JsonObject, node: OutlineNode) -> Iterator[Site]:
    if node.type in ACTIVITY_FIELDS:
        yield from _activity_sites(document, node)
    for name in _TEMPLATE_FIELDS.get(node.type, ()):
        yield from _field(document, node, name, Form.TEMPLATE)
    match node.type:
        case "end":
            yield from _field(document, node, "output_mapping", Form.JQ)
        case "switch":
            yield from _cases(document, node)
        case "set_state":
            yield from _members(document, node, "set")
            yield from _members(document, node, "assignments")
        case "for_each":
            items = node.fields.get("items")
            is_bare = isinstance(items, str) and "${" not in items
            yield from _field(document, node, "items", Form.JQ if is_bare else Form.TEMPLATE)
            yield from _field(document, node, "result", Form.TEMPLATE, inside=True)
        case "loop":
            yield from _field(document, node, "while", Form.JQ)
            yield from _field(document, node, "until", Form.JQ)
        case _:
            pass
    yield from _condition(document, node)
    if "on_error" in node.fields:
        yield from _fallbacks(
            node.fields["on_error"], field_pointer(document, node, "on_error"), node=node, body=node.body
        )


def _field(
    document: JsonObject,
    node: OutlineNode,
    name: str,
    form: Form,
    *,
    inside: bool = False,
    allows_secrets: bool = False,
) -> Iterator[Site]:
    value = node.fields.get(name)
    if name not in node.fields or (form is Form.JQ and not isinstance(value, str)):
        return
    yield Site(
        name=name,
        form=form,
        value=value,
        path=field_pointer(document, node, name),
        node=node,
        body=node.bodies[0] if inside and node.bodies else node.body,
        allows_secrets=allows_secrets,
    )


def _activity_sites(document: JsonObject, node: OutlineNode) -> Iterator[Site]:
    for name in ACTIVITY_FIELDS[node.type]:
        yield from _field(document, node, name, Form.TEMPLATE, allows_secrets=True)
    yield from _field(document, node, "idempotency_key", Form.TEMPLATE)
    undo = node.fields.get("compensate")
    if isinstance(undo, dict):
        path = field_pointer(document, node, "compensate")
        names = dict.fromkeys(name for fields in ACTIVITY_FIELDS.values() for name in fields)
        for name in names:
            if name in undo:
                yield Site(
                    name=f"compensate.{name}",
                    form=Form.TEMPLATE,
                    value=undo[name],
                    path=f"{path}/{name}",
                    node=node,
                    body=node.body,
                    allows_secrets=True,
                )


def _cases(document: JsonObject, node: OutlineNode) -> Iterator[Site]:
    cases, path = node.fields.get("cases"), field_pointer(document, node, "cases")
    for index, case in enumerate(cases if isinstance(cases, list) else []):
        when = case.get("when") if isinstance(case, dict) else None
        if isinstance(when, str):
            yield Site(name="when", form=Form.JQ, value=when, path=f"{path}/{index}/when", node=node, body=node.body)


def _members(document: JsonObject, node: OutlineNode, name: str) -> Iterator[Site]:
    members = node.fields.get(name)
    path = field_pointer(document, node, name)
    for key, value in (members if isinstance(members, dict) else {}).items():
        yield Site(
            name=name,
            form=Form.TEMPLATE,
            value=value,
            path=path + json_pointer((key,)),
            node=node,
            body=node.body,
            assigns=key,
        )


def _condition(document: JsonObject, node: OutlineNode) -> Iterator[Site]:
    successor = node.fields.get("next")
    when = successor.get("when") if isinstance(successor, dict) else None
    if isinstance(when, str):
        path = field_pointer(document, node, "next")
        yield Site(name="when", form=Form.JQ, value=when, path=f"{path}/when", node=node, body=node.body)


def _fallbacks(value: JsonValue, path: str, *, node: OutlineNode | None, body: str) -> Iterator[Site]:
    routes = value if isinstance(value, list) else [value]
    for index, route in enumerate(routes):
        if isinstance(route, dict) and "fallback" in route:
            place = f"{path}/{index}" if isinstance(value, list) else path
            yield Site(
                name="fallback",
                form=Form.TEMPLATE,
                value=route["fallback"],
                path=f"{place}/fallback",
                node=node,
                body=body,
            )


def _trigger_sites(triggers: JsonValue) -> Iterator[Site]:
    for index, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        if not isinstance(trigger, dict):
            continue
        path = f"/triggers/{index}"
        if "input" in trigger:
            yield Site(name="input", form=Form.TEMPLATE, value=trigger["input"], path=f"{path}/input")
        webhook = trigger.get("webhook")
        for name in ("dedupe", "filter", "run") if isinstance(webhook, dict) else ():
            value = webhook.get(name) if isinstance(webhook, dict) else None
            if isinstance(value, str):
                yield Site(name=name, form=Form.JQ, value=value, path=f"{path}/webhook/{name}")
        if isinstance(webhook, dict) and isinstance(webhook.get("secret"), str):
            yield Site(
                name="secret",
                form=Form.TEMPLATE,
                value=webhook["secret"],
                path=f"{path}/webhook/secret",
                allows_secrets=True,
            )
