"""Build one compiled node from its outline: a function per node type, found in a table.

Above it: `workflow`. Below it: `parts`. It does not look at the graph: routes come resolved from the outline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.json import JsonObject
from penstock.definitions.build.parts import (
    build_error_routes,
    build_retry,
    duration_of,
    expression_of,
    mapping_of,
    optional_schema,
    refuse,
    schema_of,
    template_of,
)
from penstock.definitions.jq.templates import LiteralTemplate, QueryTemplate, Template
from penstock.definitions.model import (
    ACTIVITY_TYPES,
    ActivityDetail,
    Case,
    Compensation,
    ContinueDetail,
    EmitDetail,
    EndDetail,
    FailDetail,
    ForEachDetail,
    InterruptDetail,
    ItemErrorPolicy,
    Join,
    LoopDetail,
    Node,
    NodeDetail,
    NodeType,
    ParallelDetail,
    SetStateDetail,
    StartDetail,
    SubworkflowDetail,
    Successor,
    SwitchDetail,
    WaitDetail,
    WaitKind,
)
from penstock.definitions.outline.document import EXIT, Outline, OutlineNode

__all__ = ["ACTIVITY_ARGUMENTS", "NodeBuilder"]

# The fields of each activity that are rendered for its executor; one name means the value itself is the arguments.
ACTIVITY_ARGUMENTS: dict[NodeType, tuple[str, ...]] = {
    NodeType.STEP: ("with",),
    NodeType.TOOL_CALL: ("arguments",),
    NodeType.LLM_CALL: ("system_prompt", "prompt", "user_prompt", "messages"),
    NodeType.HTTP: ("url", "headers", "query", "body"),
    NodeType.AGENT_DELEGATE: ("input", "input_mapping"),
}
_SINGLE_ARGUMENT = frozenset({NodeType.STEP, NodeType.TOOL_CALL, NodeType.AGENT_DELEGATE})
# Fields that say how a node is run, not what an executor does.
_ENGINE_FIELDS = frozenset(
    {
        "retry",
        "timeout",
        "metadata",
        "next",
        "on_error",
        "title",
        "description",
        "compensate",
        "effects",
        "idempotency_key",
    }
)


@dataclass(slots=True, kw_only=True)
class NodeBuilder:
    """Builds every node of an outline; `defaults` fills in retry and timeout of activities."""

    outline: Outline
    defaults: JsonObject

    def build(self) -> dict[str, Node]:
        """The compiled nodes by id, in document order."""
        return {node.id: self._node(node) for node in self.outline.nodes}

    def _node(self, node: OutlineNode) -> Node:
        node_type = _node_type(node)
        fields = node.fields
        detail = _DETAILS[node_type](self, node)
        takes_defaults = node_type in ACTIVITY_TYPES
        retry = fields.get("retry", self.defaults.get("retry") if takes_defaults else None)
        timeout = fields.get("timeout", self.defaults.get("timeout") if takes_defaults else None)
        output_schema = None if node_type is NodeType.END else fields.get("output_schema")
        return Node(
            id=node.id,
            type=node_type,
            body=node.body,
            path=node.path,
            detail=detail,
            successor=_successor(node),
            retry=build_retry(retry),
            timeout_ms=duration_of(timeout),
            on_error=build_error_routes(fields.get("on_error"), node.field_path("on_error")),
            output_schema=optional_schema(output_schema, node.field_path("output_schema")),
            output_schema_json=output_schema if isinstance(output_schema, dict) else None,
        )

    def start(self, node: OutlineNode) -> NodeDetail:
        """The entry of a published document."""
        return StartDetail()

    def end(self, node: OutlineNode) -> NodeDetail:
        """An end node: a template, or a jq expression over the root."""
        output: Template | None = None
        if isinstance(node.fields.get("output_mapping"), str):
            output = QueryTemplate(expression_of(node.fields["output_mapping"], node.field_path("output_mapping")))
        elif "output" in node.fields:
            output = template_of(node.fields["output"], node.field_path("output"))
        schema = optional_schema(node.fields.get("output_schema"), node.field_path("output_schema"))
        return EndDetail(output=output, output_schema=schema)

    def fail(self, node: OutlineNode) -> NodeDetail:
        """A deliberate failure."""
        message = template_of(node.fields.get("message", ""), node.field_path("message"))
        return FailDetail(code=str(node.fields.get("code", "FAILED")), message=message)

    def continue_as_new(self, node: OutlineNode) -> NodeDetail:
        """The next run of a chain."""
        return ContinueDetail(
            input=template_of(node.fields.get("input"), node.field_path("input")),
            newest=node.fields.get("version") == "newest",
        )

    def activity(self, node: OutlineNode) -> NodeDetail:
        """Any activity: what is rendered, and what is handed over as written."""
        node_type = _node_type(node)
        arguments = self._arguments(node_type, node)
        protocol = node.fields.get("protocol", "a2a")
        delegate = node_type is NodeType.AGENT_DELEGATE
        compensate, key = node.fields.get("compensate"), node.fields.get("idempotency_key")
        return ActivityDetail(
            config={key: value for key, value in node.fields.items() if key not in _ENGINE_FIELDS},
            arguments=arguments,
            agent_id=str(node.fields.get("agent_id", "")) if delegate else None,
            protocol=str(protocol) if delegate else None,
            at_most_once=node.fields.get("effects") == "at_most_once",
            idempotency_key=None if key is None else template_of(key, node.field_path("idempotency_key")),
            compensate=self._compensation(compensate, node) if isinstance(compensate, dict) else None,
        )

    def _compensation(self, raw: JsonObject, node: OutlineNode) -> Compensation:
        path = f"{node.fields_path}/compensate"
        guessed = NodeType.TOOL_CALL if "tool" in raw else NodeType.HTTP if "url" in raw else NodeType.STEP
        node_type = NodeType(str(raw["type"])) if "type" in raw else guessed
        arguments = _activity_arguments(node_type, raw, path)
        return Compensation(
            type=node_type,
            config={key: value for key, value in raw.items() if key not in _ENGINE_FIELDS},
            arguments=arguments or LiteralTemplate(None),
            retry=build_retry(raw.get("retry", self.defaults.get("retry"))),
            timeout_ms=duration_of(raw.get("timeout", self.defaults.get("timeout"))),
        )

    def _arguments(self, node_type: NodeType, node: OutlineNode) -> Template | None:
        if not self.outline.native:
            # The published format evaluates jq only in mappings; tool arguments and prompts stay verbatim.
            if node_type is NodeType.AGENT_DELEGATE:
                return mapping_of(node.fields.get("input_mapping"), node.field_path("input_mapping"))
            return None
        return _activity_arguments(node_type, node.fields, node.fields_path)

    def switch(self, node: OutlineNode) -> NodeDetail:
        """A switch; targets were resolved by the outline."""
        raw = node.fields.get("cases")
        cases = [case for case in raw if isinstance(case, dict)] if isinstance(raw, list) else []
        targets = [route.target for route in node.routes if route.kind == "case"]
        default = [route.target for route in node.routes if route.kind == "default"]
        return SwitchDetail(
            cases=tuple(
                Case(when=expression_of(case.get("when"), f"{node.fields_path}/cases/{index}/when"), target=target)
                for index, (case, target) in enumerate(zip(cases, targets, strict=True))
            ),
            default=default[0] if default else None,
            has_default=bool(default),
        )

    def interrupt(self, node: OutlineNode) -> NodeDetail:
        """A question; published prompts are plain text, native messages are templates."""
        fields = node.fields
        text = fields.get("message", fields.get("prompt", ""))
        prompt: Template = LiteralTemplate(text)
        if self.outline.native:
            prompt = template_of(text, node.field_path("message"))
        schema = fields.get("answer", fields.get("resume_schema", {"type": "object"}))
        reference, approvers = fields.get("prompt_ref"), fields.get("approvers")
        on_timeout, has_timeout_route = _timeout_route(node)
        return InterruptDetail(
            prompt=prompt,
            prompt_ref=reference if isinstance(reference, str) else None,
            answer_schema=schema_of(schema, node.field_path("answer")),
            answer_schema_json=schema if isinstance(schema, dict) else {},
            approvers=approvers if isinstance(approvers, dict) else None,
            # The published format has no word for it, and is never a tool: whoever drives such a run answers for it.
            anyone=not self.outline.native or fields.get("answered_by") == "anyone",
            decline=fields.get("decline"),
            on_timeout=on_timeout,
            has_timeout_route=has_timeout_route,
        )

    def parallel(self, node: OutlineNode) -> NodeDetail:
        """Branches; the published format runs them one after the other in listed order."""
        race = node.type == NodeType.RACE
        join = Join.ANY if race else Join(str(node.fields.get("join", "all")))
        count = len(node.bodies)
        wanted, concurrency = node.fields.get("n"), node.fields.get("concurrency")
        needed = {Join.ALL: count, Join.ANY: 1, Join.N_OF_M: wanted if isinstance(wanted, int) else count}[join]
        if not self.outline.native:
            concurrency = 1
        return ParallelDetail(
            join=join,
            needed=needed,
            bodies=node.bodies,
            concurrency=concurrency if isinstance(concurrency, int) and not race else count,
        )

    def wait(self, node: OutlineNode) -> NodeDetail:
        """A wait for time or for a signal; the kind follows from the field that is there."""
        fields = node.fields
        signal, until = fields.get("signal"), fields.get("until")
        kind = fields.get("kind")
        if not isinstance(kind, str):
            kind = "signal" if "signal" in fields else "until" if "until" in fields else "duration"
        on_timeout, has_timeout_route = _timeout_route(node)
        template: Template | None = None
        if isinstance(until, str):
            native = self.outline.native
            template = template_of(until, node.field_path("until")) if native else LiteralTemplate(until)
        return WaitDetail(
            kind=WaitKind(kind),
            duration_ms=duration_of(fields.get("duration_ms", fields.get("duration"))),
            until=template,
            signal=signal if isinstance(signal, str) else None,
            on_timeout=on_timeout,
            has_timeout_route=has_timeout_route,
        )

    def set_state(self, node: OutlineNode) -> NodeDetail:
        """Assignments in order."""
        name = "set" if "set" in node.fields else "assignments"
        raw = node.fields.get(name)
        assignments = raw if isinstance(raw, dict) else {}
        path = node.field_path(name)
        return SetStateDetail(
            assignments=tuple((key, template_of(value, f"{path}/{key}")) for key, value in assignments.items())
        )

    def subworkflow(self, node: OutlineNode) -> NodeDetail:
        """A child run by reference."""
        fields = node.fields
        reference, pin = fields.get("workflow", fields.get("workflow_ref")), fields.get("version_pin")
        name = "input" if "input" in fields else "input_mapping"
        compile_input = template_of if self.outline.native else mapping_of
        return SubworkflowDetail(
            workflow_ref=str(reference),
            input=compile_input(fields.get(name, {}), node.field_path(name)),
            version_pin=pin if isinstance(pin, str) else None,
        )

    def for_each(self, node: OutlineNode) -> NodeDetail:
        """Items by jq (a bare string is jq) or by template."""
        fields = node.fields
        items, path = fields.get("items"), node.field_path("items")
        bare = isinstance(items, str) and "${" not in items
        concurrency = fields.get("concurrency")
        result = template_of(fields["result"], node.field_path("result")) if "result" in fields else None
        return ForEachDetail(
            items=QueryTemplate(expression_of(items, path)) if bare else template_of(items, path),
            item_name=str(fields.get("as", "item")),
            concurrency=concurrency if isinstance(concurrency, int) else 1,
            on_item_error=ItemErrorPolicy(str(fields.get("on_item_error", "fail"))),
            result=result,
            body=node.bodies[0],
        )

    def loop(self, node: OutlineNode) -> NodeDetail:
        """A bounded loop."""
        fields = node.fields
        until = "until" in fields
        name, limit = ("until" if until else "while"), fields.get("max_iterations")
        return LoopDetail(
            condition=expression_of(fields.get(name), node.field_path(name)),
            until=until,
            iterations_max=limit if isinstance(limit, int) else 1,
            fail_when_exhausted=fields.get("on_exhausted", "fail") == "fail",
            body=node.bodies[0],
        )

    def emit(self, node: OutlineNode) -> NodeDetail:
        """A signal to another run."""
        return EmitDetail(
            run=template_of(node.fields.get("run"), node.field_path("run")),
            signal=str(node.fields.get("signal", "")),
            payload=template_of(node.fields.get("payload"), node.field_path("payload")),
        )


def _node_type(node: OutlineNode) -> NodeType:
    try:
        return NodeType(node.type)
    except ValueError:
        raise refuse(f"unknown node type `{node.type}`", node.path) from None


def _successor(node: OutlineNode) -> Successor | None:
    if node.type in ("switch", "end", "fail", "continue_as_new"):
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


def _timeout_route(node: OutlineNode) -> tuple[str | None, bool]:
    target = node.fields.get("on_timeout")
    if not isinstance(target, str):
        return None, False
    return (None if target == EXIT else target), True


def _activity_arguments(node_type: NodeType, fields: JsonObject, path: str) -> Template | None:
    names = [name for name in ACTIVITY_ARGUMENTS[node_type] if name in fields]
    if not names:
        return None
    if node_type in _SINGLE_ARGUMENT:
        return template_of(fields[names[0]], f"{path}/{names[0]}")
    return template_of({name: fields[name] for name in names}, path)


_Detail = Callable[[NodeBuilder, OutlineNode], NodeDetail]
_DETAILS: dict[NodeType, _Detail] = {
    NodeType.START: NodeBuilder.start,
    NodeType.END: NodeBuilder.end,
    NodeType.STEP: NodeBuilder.activity,
    NodeType.LLM_CALL: NodeBuilder.activity,
    NodeType.TOOL_CALL: NodeBuilder.activity,
    NodeType.HTTP: NodeBuilder.activity,
    NodeType.AGENT_DELEGATE: NodeBuilder.activity,
    NodeType.SWITCH: NodeBuilder.switch,
    NodeType.INTERRUPT: NodeBuilder.interrupt,
    NodeType.PARALLEL: NodeBuilder.parallel,
    NodeType.RACE: NodeBuilder.parallel,
    NodeType.WAIT: NodeBuilder.wait,
    NodeType.SET_STATE: NodeBuilder.set_state,
    NodeType.SUBWORKFLOW: NodeBuilder.subworkflow,
    NodeType.FOR_EACH: NodeBuilder.for_each,
    NodeType.LOOP: NodeBuilder.loop,
    NodeType.EMIT: NodeBuilder.emit,
    NodeType.FAIL: NodeBuilder.fail,
    NodeType.CONTINUE_AS_NEW: NodeBuilder.continue_as_new,
}
