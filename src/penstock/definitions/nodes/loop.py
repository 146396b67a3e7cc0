"""`loop`: repeats its nodes while a condition asks for it, at most a given number of times."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import LOOP_ITERATIONS_MAX
from penstock.definitions.model import LoopDetail, NodeType
from penstock.definitions.node_parts.captions import text_or_empty
from penstock.definitions.node_parts.changes import COMPUTED_AGAIN, Comparison, Effect, unsafe
from penstock.definitions.node_parts.compiling import expression_of
from penstock.definitions.node_parts.jq_places import expression
from penstock.definitions.node_parts.kind import Bodies, BodySource, Category, NodeKind, NodeSource
from penstock.definitions.node_parts.outline import OutlineNode
from penstock.definitions.shapes.fields import COUNT, Shape, choice, optional, ref, required

__all__ = ["KIND"]


def _build(source: NodeSource) -> LoopDetail:
    fields, node = source.fields, source.node
    until = "until" in fields
    name, limit = ("until" if until else "while"), fields.get("max_iterations")
    return LoopDetail(
        condition=expression_of(fields.get(name), node.field_path(name)),
        until=until,
        iterations_max=limit if isinstance(limit, int) else 1,
        fail_when_exhausted=fields.get("on_exhausted", "fail") == "fail",
        body=node.bodies[0],
    )


def _bodies(node: OutlineNode) -> Iterator[BodySource]:
    yield BodySource(name="", path=f"{node.fields_path}/nodes", nodes=node.fields.get("nodes"))


def _caption(fields: JsonObject) -> str:
    word, rounds = "while" if "while" in fields else "until", fields.get("max_iterations")
    condition = f"{word} {text_or_empty(fields.get(word)) or '…'}"
    return f"{condition}, at most {rounds} times" if isinstance(rounds, int) else condition


def _rounds_changed(before: JsonValue, after: JsonValue) -> Effect:
    if isinstance(before, int) and isinstance(after, int) and after > before:
        return Effect(reason="a loop in progress has completed fewer rounds")
    return unsafe("a loop in progress may have completed more rounds")


KIND = NodeKind(
    type=NodeType.LOOP,
    shape=Shape(
        name="loop",
        title="loop",
        description="Repeats its nodes, at most a given number of times.",
        fields=(
            required("nodes", ref("nodes"), "What is repeated."),
            optional("while", ref("jq"), "Repeat while this is true; tested before each round."),
            optional("until", ref("jq"), "Stop when this is true; tested after each round."),
            required(
                "max_iterations",
                {**COUNT, "maximum": LOOP_ITERATIONS_MAX, "examples": [10]},
                "The maximum number of rounds.",
            ),
            optional(
                "on_exhausted",
                {**choice("fail", "continue"), "default": "fail"},
                "What happens after the last round if the condition asks for another.",
            ),
        ),
        exactly_one=(("while", "until"),),
        hints={"steps": "write `nodes`", "do": "write `nodes`", "times": "write `max_iterations`"},
    ),
    other_words=("while", "repeat", "until"),
    gives="an object with `iterations`, the number of rounds, and `last`, the last output of the last round",
    build=_build,
    category=Category.GROUP,
    caption=_caption,
    bodies=Bodies(read=_bodies, word="iteration", names=("loop",)),
    jq=(expression("while"), expression("until")),
    comparison=Comparison(
        defaults={"on_exhausted": "fail"},
        expressions=frozenset({"while", "until"}),
        effects={
            "while": COMPUTED_AGAIN,
            "until": COMPUTED_AGAIN,
            "on_exhausted": COMPUTED_AGAIN,
            "max_iterations": _rounds_changed,
        },
    ),
)
