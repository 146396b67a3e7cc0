"""`subworkflow`: runs another workflow as a child run and waits for its result."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType, SubworkflowDetail
from penstock.definitions.node_parts.captions import first_text
from penstock.definitions.node_parts.changes import Comparison, unsafe
from penstock.definitions.node_parts.compiling import mapping_of, template_of
from penstock.definitions.node_parts.jq_places import mapping, template
from penstock.definitions.node_parts.kind import (
    Category,
    NodeKind,
    NodeSource,
    Pace,
    PublishedConfig,
    Reference,
    Resource,
)
from penstock.definitions.shapes.fields import OBJECT, RETRY_FIELD, STRING, Shape, optional, ref, required

__all__ = ["KIND"]

_VERSION_PIN = optional("version_pin", STRING, "The hash that the other definition must have.")


def _build(source: NodeSource) -> SubworkflowDetail:
    fields = source.fields
    reference, pin = fields.get("workflow", fields.get("workflow_ref")), fields.get("version_pin")
    name = "input" if "input" in fields else "input_mapping"
    compile_input = template_of if source.native else mapping_of
    return SubworkflowDetail(
        workflow_ref=str(reference),
        input=compile_input(fields.get(name, {}), source.node.field_path(name)),
        version_pin=pin if isinstance(pin, str) else None,
    )


def _references(fields: JsonObject) -> Iterator[Reference]:
    name, pin = "workflow" if "workflow" in fields else "workflow_ref", fields.get("version_pin")
    yield Reference(
        resource=Resource.WORKFLOW,
        name=fields.get(name),
        field=name,
        version_pin=pin if isinstance(pin, str) else None,
    )


KIND = NodeKind(
    type=NodeType.SUBWORKFLOW,
    shape=Shape(
        name="subworkflow",
        title="subworkflow",
        description="Runs another workflow and waits for its result.",
        fields=(
            optional("workflow", STRING, "The other workflow's name."),
            optional("workflow_ref", STRING, "The other workflow, by a reference that the host resolves."),
            optional("input", ref("template_object"), "The other run's input."),
            optional("input_mapping", ref("template_object"), "The same as `input`."),
            _VERSION_PIN,
            RETRY_FIELD,
        ),
        exactly_one=(("workflow", "workflow_ref"),),
        at_most_one=(("input", "input_mapping"),),
        hints={"with": "write `input`", "arguments": "write `input`", "name": "write `workflow`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_subworkflow",
            title="config of subworkflow",
            description="Runs another workflow and waits for its result.",
            fields=(
                required("workflow_ref", STRING, "The other workflow."),
                required("input_mapping", OBJECT, "The other run's input, per key."),
                _VERSION_PIN,
            ),
        ),
    ),
    other_words=("workflow", "child", "sub_workflow"),
    gives="the result of the other run",
    build=_build,
    category=Category.WORK,
    caption=first_text("workflow", "workflow_ref"),
    pace=Pace.WAITS,
    jq=(template("input"), template("input_mapping")),
    published_jq=(mapping("input_mapping"),),
    references=_references,
    comparison=Comparison(
        aliases={"workflow_ref": "workflow", "input_mapping": "input"},
        effects={
            "workflow": unsafe("a child run in flight belongs to another workflow"),
            "version_pin": unsafe("a child run in flight belongs to another version"),
        },
    ),
)
