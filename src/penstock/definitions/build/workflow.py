"""Builds the compiled workflow from a document in which the checks found no error.

Above it: `validate.load_workflow` and the runtime's definition cache. Below it: `outline.document` (which says where
things are) and `nodes`. Expressions, templates and schemas are compiled here, once. It does not check: a document with
errors gets `Rejected`, with the advice to validate first.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.base.limits import AGENT_TREE_TURNS_DEFAULT
from penstock.definitions.agents.expansion import expanded
from penstock.definitions.build.nodes import NodeBuilder
from penstock.definitions.canonical import definition_hash
from penstock.definitions.model import AgentLimits, Checkpointing, Format, Node, RunBody, Workflow
from penstock.definitions.node_parts.compiling import build_error_routes, duration_of, optional_schema
from penstock.definitions.outline.document import Outline, begins_run, outline_of
from penstock.definitions.schemas.compiled import apply_defaults

__all__ = ["build_workflow"]

_NANOS = 1_000_000_000
_CHECKPOINT_STRATEGIES = {"off": "disabled", "none": "disabled", "interval": "every_n_nodes"}


def build_workflow(document: JsonObject) -> Workflow:
    """Compile a document in either format. Validate it first: here, mistakes raise `Rejected`, one at a time."""
    whole = expanded(document)
    outline = outline_of(whole)
    nodes = NodeBuilder(outline=outline, defaults=object_or_empty(document.get("defaults"))).build()
    if outline.native:
        built = _native(whole, outline, nodes)
        if whole is document:
            return built
        limits = _limits(object_or_empty(object_or_empty(document.get("agent")).get("limits")))
        return replace(built, document=document, hash=definition_hash(document), limits=limits)
    return _published(document, outline, nodes)


def _limits(given: JsonObject) -> AgentLimits:
    """Return the limits of an agent and of everything below it. Without a number of turns there is a generous one."""
    turns, tokens, cost = given.get("turns"), given.get("tokens"), given.get("cost")
    priced = isinstance(cost, int | float) and not isinstance(cost, bool)
    return AgentLimits(
        turns=turns if isinstance(turns, int) else AGENT_TREE_TURNS_DEFAULT,
        tokens=tokens if isinstance(tokens, int) else None,
        cost=int((Decimal(str(cost)) * _NANOS).to_integral_value(ROUND_CEILING)) if priced else None,
        time_ms=duration_of(given.get("time")),
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _bodies(outline: Outline) -> dict[str, RunBody]:
    return {
        body.id: RunBody(
            id=body.id, name=body.name, owner=body.owner, entry=body.entry or "", exit_target=body.exit_target
        )
        for body in outline.bodies.values()
    }


def _reducers(schema: JsonObject) -> dict[str, str]:
    properties = object_or_empty(schema.get("properties"))
    return {
        name: reducer
        for name, declared in properties.items()
        if isinstance(declared, dict) and isinstance(reducer := declared.get("reducer"), str)
    }


def _checkpointing(document: JsonObject, default: str) -> Checkpointing:
    raw = document.get("checkpointing")
    if not isinstance(raw, dict):
        return Checkpointing(strategy=default)
    strategy = str(raw.get("strategy") or raw.get("policy") or "after_each_node")
    interval = raw.get("n") or raw.get("interval") or 1
    return Checkpointing(
        strategy=_CHECKPOINT_STRATEGIES.get(strategy, strategy),
        interval_nodes=interval if isinstance(interval, int) else 1,
        declared=True,
    )


def _published(document: JsonObject, outline: Outline, nodes: dict[str, Node]) -> Workflow:
    about = object_or_empty(document.get("document"))
    state_schema = object_or_empty(document.get("state_schema"))
    starts = [node for node in outline.nodes if begins_run(node)]
    input_schema = object_or_empty(starts[0].fields.get("input_schema")) if starts else {}
    return Workflow(
        format=Format.PUBLISHED,
        name=str(about.get("name", "")),
        version=str(about.get("version", "")),
        description=_text(about.get("description")),
        hash=definition_hash(document),
        document=document,
        nodes=nodes,
        bodies=_bodies(outline),
        input_schema=optional_schema(input_schema or None, "/nodes"),
        input_schema_json=input_schema or None,
        output_schema=None,
        state_schema=optional_schema(state_schema, "/state_schema"),
        state_schema_json=state_schema,
        reducers=_reducers(state_schema),
        checkpointing=_checkpointing(document, "after_each_node"),
    )


def _native(document: JsonObject, outline: Outline, nodes: dict[str, Node]) -> Workflow:
    input_schema = document.get("input")
    state_schema = document.get("state")
    triggers, tests, secrets = document.get("triggers"), document.get("tests"), document.get("secrets")
    initial_state = apply_defaults(object_or_empty(state_schema), {}) if state_schema else {}
    return Workflow(
        format=Format.NATIVE,
        name=str(document.get("name", "")),
        version=str(document.get("version", "0.0.0")),
        title=_text(document.get("title")),
        description=_text(document.get("description")),
        hash=definition_hash(document),
        document=document,
        nodes=nodes,
        bodies=_bodies(outline),
        input_schema=optional_schema(input_schema, "/input"),
        input_schema_json=object_or_empty(input_schema) or None,
        output_schema=optional_schema(document.get("output"), "/output"),
        state_schema=optional_schema(state_schema, "/state"),
        state_schema_json=object_or_empty(state_schema) or None,
        reducers=_reducers(object_or_empty(state_schema)),
        checkpointing=_checkpointing(document, "disabled"),
        timeout_ms=duration_of(document.get("timeout")),
        on_error=build_error_routes(document.get("on_error"), "/on_error"),
        secrets=frozenset(str(name) for name in secrets) if isinstance(secrets, list) else frozenset(),
        expose=object_or_empty(document.get("expose")),
        governance=object_or_empty(document.get("governance")),
        triggers=tuple(object_or_empty(trigger) for trigger in triggers) if isinstance(triggers, list) else (),
        tests=tuple(object_or_empty(test) for test in tests) if isinstance(tests, list) else (),
        initial_state=initial_state,
    )
