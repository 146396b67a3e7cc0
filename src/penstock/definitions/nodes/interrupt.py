"""`interrupt`: asks a person and waits for the answer."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.decline_answers import declined_answer
from penstock.definitions.jq.templates import LiteralTemplate, Template
from penstock.definitions.model import InterruptDetail, NodeType
from penstock.definitions.node_parts.approvers import approver_findings, approver_groups, escalation_ms
from penstock.definitions.node_parts.captions import first_text, text_or_empty
from penstock.definitions.node_parts.changes import Comparison, unsafe
from penstock.definitions.node_parts.compiling import schema_of, template_of
from penstock.definitions.node_parts.jq_places import template
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, Pace, PublishedConfig
from penstock.definitions.node_parts.outline import OutlineNode, timeout_route
from penstock.definitions.schemas.compiled import SchemaProblem, compile_schema, violations
from penstock.definitions.shapes.fields import STRING, Shape, choice, optional, ref, required
from penstock.definitions.source.findings import Finding

__all__ = ["KIND"]

_ANY_OBJECT: JsonObject = {"type": "object"}


def _answer_schema(fields: JsonObject, otherwise: JsonValue) -> JsonValue:
    return fields.get("answer", fields.get("resume_schema", otherwise))


def _build(source: NodeSource) -> InterruptDetail:
    fields, node = source.fields, source.node
    text = fields.get("message", fields.get("prompt", ""))
    # Published prompts are plain text, native messages are templates.
    prompt: Template = LiteralTemplate(text)
    if source.native:
        prompt = template_of(text, node.field_path("message"))
    schema = _answer_schema(fields, _ANY_OBJECT)
    reference, approvers = fields.get("prompt_ref"), fields.get("approvers")
    on_timeout, has_timeout_route = timeout_route(fields)
    return InterruptDetail(
        prompt=prompt,
        prompt_ref=reference if isinstance(reference, str) else None,
        answer_schema=schema_of(schema, node.field_path("answer")),
        answer_schema_json=schema if isinstance(schema, dict) else {},
        approvers=approvers if isinstance(approvers, dict) else None,
        escalate_ms=escalation_ms(approvers),
        # The published format cannot say who answers, and is never a tool: the driver of such a run is responsible.
        anyone=not source.native or fields.get("answered_by") == "anyone",
        decline=fields.get("decline"),
        on_timeout=on_timeout,
        has_timeout_route=has_timeout_route,
    )


def _output(fields: JsonObject) -> JsonValue:
    """The schema of the answer. If several people answer, all of them have to give the same one."""
    return _answer_schema(fields, None)


def _check(node: OutlineNode) -> Iterator[Finding]:
    approvers = node.fields.get("approvers")
    if isinstance(approvers, dict):
        yield from approver_findings(approvers, node.field_path("approvers"), timeout=node.fields.get("timeout"))
        yield from _quorum(node, approvers)
    yield from _decline(node)


def _quorum(node: OutlineNode, approvers: JsonObject) -> Iterator[Finding]:
    """Several people can only agree if one of them can also say no."""
    count, schema = approvers.get("count", 1), _answer_schema(node.fields, _ANY_OBJECT)
    if isinstance(count, int) and count > 1 and declined_answer(schema, node.fields.get("decline")) is None:
        yield Finding(
            code="DECLINE_REQUIRED",
            message=f"`{node.id}` asks {count} people, but no answer is known to decline",
            path=node.field_path("approvers"),
            hint="write `decline`, such as {approved: false}",
        )


def _decline(node: OutlineNode) -> Iterator[Finding]:
    """Check that the question accepts its own `decline` answer."""
    declared, schema = node.fields.get("decline"), _answer_schema(node.fields, _ANY_OBJECT)
    compiled = compile_schema(schema) if declared is not None and isinstance(schema, dict) else None
    if compiled is None or isinstance(compiled, SchemaProblem):
        return  # the schema check reports what is wrong with the schema
    for found in violations(compiled, declared):
        yield Finding(
            code="DECLINE_INVALID",
            message=f"`decline` of `{node.id}` does not fit `answer`: {found.message}",
            path=f"{node.field_path('decline')}{found.instance_path}",
            hint="write an answer that fits `answer`, such as false for what the question asks",
        )


def _caption(fields: JsonObject) -> str:
    approvers = object_or_empty(fields.get("approvers"))
    users = approvers.get("users")
    named = [*approver_groups(approvers), *(users if isinstance(users, list) else [])]
    people = ", ".join(name for name in map(text_or_empty, named) if name)
    return people or first_text("message", "prompt", "prompt_ref")(fields)


KIND = NodeKind(
    type=NodeType.INTERRUPT,
    shape=Shape(
        name="interrupt",
        title="interrupt",
        description="Asks a person and waits for the answer.",
        fields=(
            optional("message", STRING, "The question; may contain ${ jq }."),
            optional("prompt", STRING, "The same as `message`."),
            optional("prompt_ref", STRING, "The question, by a reference that the host resolves."),
            optional("answer", ref("json_schema"), "The JSON Schema of the answer; a form is made from it."),
            optional("resume_schema", ref("json_schema"), "The same as `answer`."),
            optional(
                "decline", {"not": {"type": "null"}}, "The answer that declines; by default, derived from `answer`."
            ),
            optional("approvers", ref("approvers"), "Who may answer; this makes the question an approval."),
            optional(
                "answered_by",
                {**choice("people", "anyone"), "default": "people"},
                "`people`: in a form, over REST or at the terminal. "
                "`anyone`: a model may answer by calling a tool, too.",
            ),
            optional("timeout", ref("duration"), "How long to wait for the answer."),
            optional("on_timeout", ref("target"), "The next node if nobody answers in time."),
        ),
        exactly_one=(("message", "prompt", "prompt_ref"),),
        at_most_one=(("answer", "resume_schema"), ("approvers", "answered_by")),
        needs=(("on_timeout", ("timeout",)),),
        hints={"question": "write `message`", "schema": "write `answer`", "text": "write `message`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_interrupt",
            title="config of interrupt",
            description="Asks a person and waits for the answer.",
            fields=(
                required("resume_schema", ref("published_answer_schema"), "The JSON Schema of the answer."),
                optional("prompt", STRING, "The question."),
                optional("prompt_ref", STRING, "The question, by a reference that the host resolves."),
                optional("timeout", ref("published_duration"), "How long to wait for the answer."),
            ),
            at_least_one=(("prompt", "prompt_ref"),),
        ),
    ),
    other_words=("approval", "approve", "human", "ask", "question", "form", "input", "review"),
    gives="the answer; `null` when the time ran out",
    build=_build,
    category=Category.PERSON,
    caption=_caption,
    pace=Pace.WAITS,
    jq=(template("message"), template("prompt")),
    # `answer_schema` is a frequent mistake; a secret in it is reported anyway.
    answer_fields=("answer", "answer_schema", "resume_schema"),
    output=_output,
    check=_check,
    comparison=Comparison(
        aliases={"prompt": "message", "resume_schema": "answer"},
        defaults={"answer": _ANY_OBJECT},
        effects={"answer": unsafe("a run in flight may have asked or answered the question in the old form")},
    ),
)
