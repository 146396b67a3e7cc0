"""The names that a document claims besides its own: of its tool, prompt, resource, webhooks and schedules.

Within a tenant, each name belongs to one workflow. Names are compared in the form that callers use, so that two
spellings of one name are equal: a tool `a.b` is called `a_b`, an address has its normal form, and its variables may
have any name.

Above it: the stores, which record the owner of each name. Below it: only the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.base.addresses import own_address, unescape_unreserved
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.agents.schemas import input_schema_of
from penstock.definitions.webhooks import hook_path

__all__ = ["ClaimedName", "claimed_names"]

_NOT_IN_TOOL_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_VARIABLE = re.compile(r"\{[^{}]*\}")
# Requests that clients send to the server itself; one workflow of a tenant handles each of them.
_HANDLERS = ("sampling", "elicitation")


class ClaimedName(NamedTuple):
    """A name that one workflow of a tenant owns; `kind` is tool, prompt, resource, webhook, schedule or handler."""

    kind: str
    name: str


def claimed_names(workflow_name: str, document: JsonObject) -> tuple[ClaimedName, ...]:
    """Return every name that a document claims, each once."""
    return tuple(sorted({*_exposed(workflow_name, document), *_webhooks(document), *_schedules(document)}))


def _exposed(workflow_name: str, document: JsonObject) -> Iterator[ClaimedName]:
    exposed = object_or_empty(document.get("expose"))
    tool, prompt, resource = (_exposure(exposed.get(kind)) for kind in ("tool", "prompt", "resource"))
    if tool is not None:
        yield ClaimedName("tool", _NOT_IN_TOOL_NAMES.sub("_", _text(tool.get("name")) or workflow_name))
    if prompt is not None:
        yield ClaimedName("prompt", _text(prompt.get("name")) or workflow_name)
    if resource is not None:
        required = input_schema_of(document).get("required")
        needed = tuple(str(name) for name in required) if isinstance(required, list) else ()
        address = _text(resource.get("uri")) or own_address(workflow_name, needed)
        scheme, colon, rest = _VARIABLE.sub("{}", address).partition(":")
        yield ClaimedName("resource", f"{scheme.lower()}{colon}{unescape_unreserved(rest)}")
    yield from (ClaimedName("handler", kind) for kind in _HANDLERS if _exposure(exposed.get(kind)) is not None)


def _webhooks(document: JsonObject) -> Iterator[ClaimedName]:
    triggers = document.get("triggers")
    for trigger in triggers if isinstance(triggers, list) else []:
        webhook = object_or_empty(trigger).get("webhook")
        if isinstance(webhook, dict) and object_or_empty(trigger).get("enabled") is not False:
            method = _text(webhook.get("method")) or "POST"
            yield ClaimedName("webhook", f"{method} /hooks/{hook_path(str(webhook.get('path')))}")


def _schedules(document: JsonObject) -> Iterator[ClaimedName]:
    """Yield the ids of schedules. A trigger without an id has one that begins with the name of its workflow."""
    triggers = document.get("triggers")
    for trigger in triggers if isinstance(triggers, list) else []:
        given = object_or_empty(trigger)
        if isinstance(given.get("schedule"), dict) and given.get("enabled") is not False and _text(given.get("id")):
            yield ClaimedName("schedule", str(given["id"]))


def _exposure(value: JsonValue) -> JsonObject | None:
    if value is True:
        return {}
    return value if isinstance(value, dict) else None


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None
