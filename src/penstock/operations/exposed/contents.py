"""Exposed workflows that are read: resources with an address, and prompts with a name.

Each has a capability with a separate name: reading it through the gate starts a durable run of the version that was
listed. Variables of an address and arguments of a prompt are strings; they are converted to the types of the input
schema before they are checked.

Above it: `workflows` keeps these for each tenant, surfaces list and read them. Below it: `runs.capabilities`.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

import msgspec

from penstock.base.addresses import AddressTemplate, own_address, read_template
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.schemas import input_schema_of
from penstock.definitions.reached import Reached, workflow_key
from penstock.operations.catalogue.capability import Annotations, Capability
from penstock.operations.catalogue.exposure import ExposedPrompt, ExposedResource, PromptText
from penstock.operations.runs.capabilities import client_needs, converted, execute, execution_authorization, icons_of
from penstock.operations.runs.tool_schemas import governance_of, object_at, object_schema, settings_of, text_of
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.upstreams.tools import PROMPT_PREFIX as UPSTREAM_PROMPTS

__all__ = [
    "PROMPT_PREFIX",
    "RESOURCE_PREFIX",
    "exposed_prompt",
    "exposed_resource",
    "imported_prompt",
    "typed_arguments",
]


RESOURCE_PREFIX = "resource:"
PROMPT_PREFIX = "prompt:"
_ERRORS = ("INVALID_ARGUMENTS", "WORKFLOW_NOT_FOUND", "VALUE_NOT_JSON", "QUOTA_EXCEEDED")
_READS = Annotations(read_only=True, open_world=True)
_STARTS = Annotations(open_world=True)


def exposed_resource(row: DefinitionRow, scopes: tuple[str, ...]) -> ExposedResource | None:
    """Return the resource that a document exposes; None if it does not exist, or if its address is not valid."""
    shown, document = settings_of(row.document, "resource"), row.document
    if shown is None:
        return None
    schema = object_schema(input_schema_of(document))
    required = schema.get("required")
    needed = tuple(str(name) for name in required) if isinstance(required, list) else ()
    address = read_template(text_of(shown.get("uri")) or own_address(row.name, needed), row.name)
    if not isinstance(address, AddressTemplate):
        return None
    return ExposedResource(
        address=address,
        name=text_of(shown.get("name")) or row.name,
        workflow_id=row.name,
        title=text_of(shown.get("title"), document.get("title")),
        description=text_of(shown.get("description"), document.get("description")),
        mime_type=text_of(shown.get("mime_type")),
        result="content" if shown.get("result") == "content" else "data",
        icons=icons_of(shown),
        input_schema=schema,
        capability=_capability(row, f"{RESOURCE_PREFIX}{row.name}", _READS, scopes),
    )


def exposed_prompt(row: DefinitionRow, scopes: tuple[str, ...]) -> ExposedPrompt | None:
    """Return the prompt that a document exposes; None if it does not exist."""
    shown, document = settings_of(row.document, "prompt"), row.document
    if shown is None:
        return None
    tool, schema = settings_of(document, "tool"), object_schema(input_schema_of(document))
    said = shown.get("messages")
    return ExposedPrompt(
        name=text_of(shown.get("name")) or row.name,
        workflow_id=row.name,
        tool=None if tool is None else text_of(tool.get("name")) or row.name,
        title=text_of(shown.get("title"), document.get("title")),
        description=text_of(shown.get("description"), document.get("description")),
        icons=icons_of(shown),
        input_schema=schema,
        messages=tuple(_message(item) for item in said if isinstance(item, dict)) if isinstance(said, list) else (),
        runs=shown.get("run") is True,
        capability=_capability(row, f"{PROMPT_PREFIX}{row.name}", _STARTS, scopes),
    )


def imported_prompt(tool: Capability) -> ExposedPrompt | None:
    """Return the prompt of another server that an imported tool stands for; None if it stands for something else."""
    upstream = str(tool.metadata.get("upstream", ""))
    if not upstream.startswith(UPSTREAM_PROMPTS):
        return None
    server = str(tool.metadata.get("tool")).removesuffix(upstream)
    return ExposedPrompt(
        name=f"{server}{upstream.removeprefix(UPSTREAM_PROMPTS)}",
        workflow_id=tool.name,
        tool=None,
        title=tool.title,
        description=tool.description,
        icons=[],
        input_schema=tool.input_schema,
        messages=(),
        runs=True,
        capability=tool,
    )


def _message(said: JsonObject) -> PromptText:
    return PromptText(role="assistant" if said.get("role") == "assistant" else "user", text=str(said.get("text", "")))


def _capability(row: DefinitionRow, name: str, annotations: Annotations, scopes: tuple[str, ...]) -> Capability:
    title = text_of(row.document.get("title")) or row.name
    own = input_schema_of(row.document)
    schema = object_schema(own)
    return Capability(
        name=name,
        title=title,
        description=text_of(row.document.get("description")) or title,
        make_input_schema=lambda: schema,
        make_output_schema=lambda: None,
        annotations=annotations,
        governance=governance_of(object_at(row.document, "governance"), scopes),
        handler=partial(execute, row.name, row.hash),
        convert=lambda given: converted(own, typed_arguments(schema, given)),
        authorization=partial(execution_authorization, row.name),
        policy_input=partial(typed_arguments, schema),
        reaches=lambda arguments: (Reached(workflow_key(row.name)),),
        errors=_ERRORS,
        populator="workflow",
        metadata=MappingProxyType(
            {"workflow": row.name, "version": row.version, "hash": row.hash, **client_needs(row.document, {})}
        ),
    )


def typed_arguments(schema: JsonObject, given: JsonObject) -> JsonObject:
    """Convert string arguments to the types of the schema.

    One that cannot be converted stays a string and fails later.
    """
    properties = object_at(schema, "properties")
    return {name: _typed(properties.get(name), value) for name, value in given.items()}


def _typed(schema: JsonValue, value: JsonValue) -> JsonValue:
    kinds = schema.get("type") if isinstance(schema, dict) else None
    wanted = kinds if isinstance(kinds, list) else [kinds]
    if not isinstance(value, str) or kinds is None or "string" in wanted:
        return value
    try:
        found: JsonValue = msgspec.json.decode(value.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return value
    return value if isinstance(found, str) else found
