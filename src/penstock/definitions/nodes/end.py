"""`end`: ends the run with a result, given as a template or as one jq expression."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.jq.templates import QueryTemplate, Template
from penstock.definitions.model import EndDetail, NodeType
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.compiling import expression_of, optional_schema, template_of
from penstock.definitions.node_parts.jq_places import Purpose, expression, template
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, PublishedConfig, RunEnd
from penstock.definitions.node_parts.outline import Outline, has_only_known_types
from penstock.definitions.shapes.fields import STRING, Shape, optional, ref
from penstock.definitions.source.findings import Finding

__all__ = ["KIND"]


def _build(source: NodeSource) -> EndDetail:
    node = source.node
    output: Template | None = None
    if isinstance(node.fields.get("output_mapping"), str):
        output = QueryTemplate(expression_of(node.fields["output_mapping"], node.field_path("output_mapping")))
    elif "output" in node.fields:
        output = template_of(node.fields["output"], node.field_path("output"))
    schema = optional_schema(node.fields.get("output_schema"), node.field_path("output_schema"))
    return EndDetail(output=output, output_schema=schema)


def _check_all(outline: Outline) -> Iterator[Finding]:
    if outline.native:
        return
    ends = [node for node in outline.nodes if node.type == NodeType.END]
    if not ends and has_only_known_types(outline):
        yield Finding(
            code="END_COUNT", message="there is no end node", path="/nodes", hint="add one node with `type: end`"
        )
    for extra in ends[1:]:
        yield Finding(
            code="END_COUNT",
            message=f"`{extra.id}` is a second end node; `{ends[0].id}` is the first",
            path=f"{extra.path}/type",
            hint="the published format has exactly one end; lead both paths to it, or write `penstock: v1`",
        )


def _no_output(fields: JsonObject) -> None:
    """No expression can read the output of a node that ends the run; its `output_schema` is that of the result."""


KIND = NodeKind(
    type=NodeType.END,
    shape=Shape(
        name="end",
        title="end",
        description="Ends the run with a result; there may be several.",
        fields=(
            optional("output", ref("template"), "The run's result."),
            optional("output_mapping", ref("jq"), "The run's result as one jq expression."),
            optional("output_schema", ref("json_schema"), "The JSON Schema of the result."),
        ),
        at_most_one=(("output", "output_mapping"),),
        hints={"next": "an end node has no successor", "result": "write `output`", "value": "write `output`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_end",
            title="config of end",
            description="Ends the run with a result.",
            fields=(
                optional("output_schema", ref("published_json_schema"), "The JSON Schema of the result."),
                optional("output_mapping", STRING, "The result, as a jq expression on the state."),
            ),
        ),
        required=False,
    ),
    other_words=("return", "stop", "finish", "done", "result"),
    gives="nothing: the run is over, with `output` as its result",
    build=_build,
    category=Category.TERMINAL,
    has_successor=False,
    run_end=RunEnd(code="END_IN_BODY", does="end the run"),
    jq=(template("output", Purpose.RESULT), expression("output_mapping", Purpose.RESULT)),
    published_jq=(expression("output_mapping", Purpose.RESULT),),
    output=_no_output,
    check_all=_check_all,
    comparison=Comparison(
        aliases={"output_mapping": "output"},
        expressions=frozenset({"output_mapping"}),
        elsewhere=frozenset({"output_schema", "next"}),
    ),
)
