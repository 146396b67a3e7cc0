"""Compiles the nodes of an outline: the common part here, the rest by the declaration of each type.

Above it: `workflow`. Below it: `penstock.definitions.nodes`, whose declarations compile what is specific to a type. It
does not follow routes: the outline has resolved them.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.json import JsonObject
from penstock.definitions.jq.templates import LiteralTemplate
from penstock.definitions.model import Compensation, Node, NodeType, Successor
from penstock.definitions.node_parts.activity import activity_arguments, activity_config
from penstock.definitions.node_parts.compiling import (
    build_error_routes,
    build_retry,
    duration_of,
    expression_of,
    optional_schema,
    refuse,
)
from penstock.definitions.node_parts.kind import NodeKind, NodeSource
from penstock.definitions.nodes import NODE_KINDS, implied_activity, kind_named
from penstock.definitions.outline.document import Outline, OutlineNode, gives_result

__all__ = ["NodeBuilder"]


@dataclass(slots=True, kw_only=True)
class NodeBuilder:
    """Builds every node of an outline; `defaults` fills in the retry and timeout of activities."""

    outline: Outline
    defaults: JsonObject

    def build(self) -> dict[str, Node]:
        """Return the compiled nodes by id, in document order."""
        return {node.id: self._node(node) for node in self.outline.nodes}

    def _node(self, node: OutlineNode) -> Node:
        kind = kind_named(node.type)
        if kind is None:
            raise refuse(f"unknown node type `{node.type}`", node.path)
        fields, compensate = node.fields, None
        takes_defaults = kind.activity is not None
        if takes_defaults and isinstance(undo := fields.get("compensate"), dict):
            compensate = self._compensation(undo, f"{node.fields_path}/compensate")
        detail = kind.build(NodeSource(node=node, native=self.outline.native, compensate=compensate))
        retry = fields.get("retry", self.defaults.get("retry") if takes_defaults else None)
        timeout = fields.get("timeout", self.defaults.get("timeout") if takes_defaults else None)
        # The output schema of an end is the schema of the run's result, which is checked elsewhere.
        output_schema = None if gives_result(node) else fields.get("output_schema")
        return Node(
            id=node.id,
            type=kind.type,
            body=node.body,
            path=node.path,
            detail=detail,
            successor=_successor(node, kind),
            retry=build_retry(retry),
            timeout_ms=duration_of(timeout),
            on_error=build_error_routes(fields.get("on_error"), node.field_path("on_error")),
            output_schema=optional_schema(output_schema, node.field_path("output_schema")),
            output_schema_json=output_schema if isinstance(output_schema, dict) else None,
        )

    def _compensation(self, raw: JsonObject, path: str) -> Compensation:
        kind = NODE_KINDS[NodeType(str(raw["type"]))] if "type" in raw else implied_activity(raw)
        if kind.activity is None:
            raise refuse(f"a {kind.name} node is not an activity", path)
        return Compensation(
            type=kind.type,
            config=activity_config(raw),
            arguments=activity_arguments(kind.activity, raw, path) or LiteralTemplate(None),
            retry=build_retry(raw.get("retry", self.defaults.get("retry"))),
            timeout_ms=duration_of(raw.get("timeout", self.defaults.get("timeout"))),
        )


def _successor(node: OutlineNode, kind: NodeKind) -> Successor | None:
    if not kind.has_successor:
        return None
    routes = {route.kind: route for route in node.routes if route.kind in ("edge", "next", "then", "else")}
    if "then" in routes:
        condition = node.fields.get("next")
        when = condition.get("when") if isinstance(condition, dict) else "true"
        otherwise = routes["else"].target if "else" in routes else None
        return Successor(
            target=routes["then"].target,
            when=expression_of(when, node.field_path("next") + "/when"),
            otherwise=otherwise,
        )
    chosen = routes.get("edge") or routes.get("next")
    return Successor(target=chosen.target if chosen else None)
