"""Members that the bodies of several registries have, and the check of a JSON Schema among them.

Above it: the registries. Below it: the check of schemas, which may take long and does not run on the event loop.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.operations.gate.context import Context

__all__ = ["JsonSchema", "Prose", "check_json_schema"]

Prose = Annotated[Annotated[str, Meta(max_length=2_000)] | None, Meta(description="What it is, for people.")]
JsonSchema = Annotated[
    dict[str, Any], Meta(description="A JSON Schema (draft 2020-12).", examples=[{"type": "object"}])
]


async def check_json_schema(context: Context, name: str, schema: JsonObject | None) -> None:
    """Refuse a value that cannot be used as a JSON Schema; `name` is the member that holds it."""
    if schema is None:
        return
    problem = await context.services.documents.schema_problem(schema, tenant=context.tenant)
    if problem is not None:
        message = f"{name} is not a JSON Schema: {problem.message} at {problem.path or '/'}"
        pointed: JsonObject = {"errors": [{"pointer": f"/{name}{problem.path}", "message": problem.message}]}
        raise Rejected("SCHEMA_INVALID", message, "send a JSON Schema of draft 2020-12", pointed)
