"""`emit`: sends a signal to another run."""

from __future__ import annotations

from penstock.definitions.model import EmitDetail, NodeType
from penstock.definitions.node_parts.captions import first_text
from penstock.definitions.node_parts.compiling import template_of
from penstock.definitions.node_parts.jq_places import Purpose, template
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, Pace
from penstock.definitions.shapes.fields import STRING, Shape, optional, ref, required

__all__ = ["KIND"]


def _build(source: NodeSource) -> EmitDetail:
    fields, node = source.fields, source.node
    return EmitDetail(
        run=template_of(fields.get("run"), node.field_path("run")),
        signal=str(fields.get("signal", "")),
        payload=template_of(fields.get("payload"), node.field_path("payload")),
    )


KIND = NodeKind(
    type=NodeType.EMIT,
    shape=Shape(
        name="emit",
        title="emit",
        description="Sends a signal to another run.",
        fields=(
            required("run", ref("template"), "The id of the run that gets the signal."),
            required("signal", STRING, "The signal's name."),
            optional("payload", ref("template"), "What the signal carries."),
        ),
        hints={"to": "write `run`", "with": "write `payload`", "name": "write `signal`"},
    ),
    other_words=("signal", "send", "publish", "event"),
    gives="an object with `run` and `signal`",
    build=_build,
    category=Category.TIME,
    caption=first_text("signal"),
    pace=Pace.SENDS,
    jq=(template("run", Purpose.STRING), template("payload")),
)
