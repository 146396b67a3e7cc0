"""A checked query as a tool: its name, description, annotations and schemas.

Above it: the catalogue of tools. Below it: `schemas`, `answers`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.graph.parameters.answers import output_schema
from penstock.graph.parameters.schemas import input_schema
from penstock.graph.typing.model import CheckedMutation, CheckedQuery, InsertNode

__all__ = ["tool_annotations", "tool_description", "tool_input_schema", "tool_name", "tool_output_schema"]


def tool_name(query: CheckedQuery) -> str:
    """Return the name of the tool: `tool_name` of `@mcp`, else that of the query."""
    return query.tool_name or query.name


def tool_description(query: CheckedQuery) -> str:
    """Return the description and, behind an empty line, the instruction."""
    parts = (query.description, query.instruction)
    return "\n\n".join(part for part in parts if part) or f"Runs the stored query `{query.name}`."


def tool_annotations(query: CheckedQuery) -> JsonObject:
    """Return the hints of MCP.

    A mutation is destructive unless it only inserts nodes without a key and edges: those never replace anything. It is
    idempotent if it only deletes.
    """
    if not isinstance(query.body, CheckedMutation):
        return {"readOnlyHint": True, "openWorldHint": False}
    keyed = any(isinstance(step, InsertNode) and step.type.key is not None for step in query.body.steps)
    return {
        "readOnlyHint": False,
        "destructiveHint": keyed or not query.body.only_inserts,
        "idempotentHint": query.body.deletes,
        "openWorldHint": False,
    }


def tool_input_schema(query: CheckedQuery) -> JsonObject:
    """Return the schema of the arguments."""
    return input_schema(query.parameters, mutation=query.is_mutation)


def tool_output_schema(query: CheckedQuery) -> JsonObject:
    """Return the schema of the structured answer."""
    return output_schema(query)
