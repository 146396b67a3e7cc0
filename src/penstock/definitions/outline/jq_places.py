"""Every place in a document where jq may occur, in either format.

Above it: `checks.expressions` and `checks.types`, which look at every place. Below it: `document`, and the node types,
which know the places in their own fields. It compiles nothing. A field of the wrong type is left out, because the
schema check reports it.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace, field_pointer
from penstock.definitions.nodes import ACTIVITY_KINDS, kind_named
from penstock.definitions.outline.document import Outline, OutlineNode

__all__ = ["jq_places_of"]

# A compensation can be an activity of any type, so it may have the rendered fields of all of them.
_RENDERED = tuple(dict.fromkeys(name for kind in ACTIVITY_KINDS if kind.activity for name in kind.activity.arguments))


def jq_places_of(document: JsonObject, outline: Outline) -> Iterator[JqPlace]:
    """Yield every place of a document, in document order of the nodes."""
    for node in outline.nodes:
        if outline.native:
            yield from _native_places(document, node)
        elif (kind := kind_named(node.type)) is not None:
            for reader in kind.published_jq:
                yield from reader(document, node)
    if outline.native:
        yield from _fallbacks(document.get("on_error"), "/on_error", node=None, body="")
        yield from _trigger_places(document.get("triggers"))


def _native_places(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    kind = kind_named(node.type)
    if kind is not None:
        for reader in kind.jq:
            yield from reader(document, node)
        if kind.activity is not None:
            yield from _compensation(document, node)
    yield from _condition(document, node)
    if "on_error" in node.fields:
        yield from _fallbacks(
            node.fields["on_error"], field_pointer(document, node, "on_error"), node=node, body=node.body
        )


def _compensation(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    undo = node.fields.get("compensate")
    if not isinstance(undo, dict):
        return
    path = field_pointer(document, node, "compensate")
    for name in _RENDERED:
        if name in undo:
            yield JqPlace(
                name=f"compensate.{name}",
                form=JqForm.TEMPLATE,
                value=undo[name],
                path=f"{path}/{name}",
                node=node,
                body=node.body,
                allows_secrets=True,
            )


def _condition(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    successor = node.fields.get("next")
    when = successor.get("when") if isinstance(successor, dict) else None
    if isinstance(when, str):
        path = field_pointer(document, node, "next")
        yield JqPlace(name="when", form=JqForm.JQ, value=when, path=f"{path}/when", node=node, body=node.body)


def _fallbacks(value: JsonValue, path: str, *, node: OutlineNode | None, body: str) -> Iterator[JqPlace]:
    routes = value if isinstance(value, list) else [value]
    for index, route in enumerate(routes):
        if isinstance(route, dict) and "fallback" in route:
            place = f"{path}/{index}" if isinstance(value, list) else path
            yield JqPlace(
                name="fallback",
                form=JqForm.TEMPLATE,
                value=route["fallback"],
                path=f"{place}/fallback",
                node=node,
                body=body,
            )


def _trigger_places(triggers: JsonValue) -> Iterator[JqPlace]:
    for index, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        if not isinstance(trigger, dict):
            continue
        path = f"/triggers/{index}"
        if "input" in trigger:
            yield JqPlace(name="input", form=JqForm.TEMPLATE, value=trigger["input"], path=f"{path}/input")
        webhook = trigger.get("webhook")
        for name in ("dedupe", "filter", "run") if isinstance(webhook, dict) else ():
            value = webhook.get(name) if isinstance(webhook, dict) else None
            if isinstance(value, str):
                yield JqPlace(name=name, form=JqForm.JQ, value=value, path=f"{path}/webhook/{name}")
        if isinstance(webhook, dict) and isinstance(webhook.get("secret"), str):
            yield JqPlace(
                name="secret",
                form=JqForm.TEMPLATE,
                value=webhook["secret"],
                path=f"{path}/webhook/secret",
                allows_secrets=True,
            )
