"""Checks of a document's exposure that no schema can state: addresses, placeholders of prompts, icons.

Above it: `validate`. Below it: `base.addresses`, `jq.prompt_texts`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.addresses import AddressTemplate, read_template
from penstock.base.json import JsonObject, object_or_empty
from penstock.definitions.jq.prompt_texts import placeholders
from penstock.definitions.source.findings import Finding

__all__ = ["exposure_findings"]


def exposure_findings(document: JsonObject) -> Iterator[Finding]:
    """Yield everything that is wrong with the exposure of a document."""
    exposed = object_or_empty(document.get("expose"))
    resource, prompt = object_or_empty(exposed.get("resource")), object_or_empty(exposed.get("prompt"))
    schema = object_or_empty(document.get("input"))
    if isinstance(resource.get("uri"), str):
        yield from _address(str(resource["uri"]), str(document.get("name")), schema)
    messages = prompt.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list) else []):
        text = message.get("text") if isinstance(message, dict) else None
        if isinstance(text, str):
            yield from _placeholders(text, f"/expose/prompt/messages/{number}/text", schema)


def _address(uri: str, workflow: str, schema: JsonObject) -> Iterator[Finding]:
    path, read = "/expose/resource/uri", read_template(uri, workflow)
    if not isinstance(read, AddressTemplate):
        yield Finding(
            code="RESOURCE_ADDRESS",
            message=f"{uri[:100]!r} cannot be the address of a resource: {read}",
            path=path,
            hint="write an address with a scheme of your own, such as `reports://daily` or `reports://{day}`",
        )
        return
    properties, required = schema.get("properties"), schema.get("required")
    known = list(properties) if isinstance(properties, dict) else []
    for name in read.variables:
        if known and name not in known:
            yield Finding(
                code="RESOURCE_ADDRESS",
                message=f"the address has the variable {name!r}, which is not a member of the input",
                path=path,
                hint=f"the input has {', '.join(known[:10])}",
            )
    missing = [name for name in required if name not in read.variables] if isinstance(required, list) else []
    if missing:
        yield Finding(
            code="RESOURCE_ADDRESS",
            message=f"the input requires {str(missing[0])!r}, which the address does not contain",
            path=path,
            hint=f"put {{{missing[0]}}} into the address, or give the member a default and do not require it",
        )


def _placeholders(text: str, path: str, schema: JsonObject) -> Iterator[Finding]:
    properties = schema.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    for name in placeholders(text):
        if name not in known:
            yield Finding(
                code="UNKNOWN_ARGUMENT",
                message=f"this text refers to {name!r}, which is not a member of the input",
                path=path,
                hint=f"the input has {', '.join(known[:10])}" if known else "add it to the `input` of the workflow",
            )
