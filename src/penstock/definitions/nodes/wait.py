"""`wait`: waits for a time or for a signal. The field that is present decides which."""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.jq.templates import LiteralTemplate, Template
from penstock.definitions.model import NodeType, WaitDetail, WaitKind
from penstock.definitions.node_parts.captions import duration_text, text_or_empty
from penstock.definitions.node_parts.changes import Comparison, Effect, unsafe
from penstock.definitions.node_parts.compiling import duration_of, template_of
from penstock.definitions.node_parts.jq_places import template
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, Pace, PublishedConfig
from penstock.definitions.node_parts.outline import timeout_route
from penstock.definitions.shapes.fields import STRING, Condition, Shape, choice, optional, ref, required

__all__ = ["KIND"]

_KINDS = choice("duration", "until", "signal")
_DURATION_MS = optional("duration_ms", {"type": "integer", "minimum": 0}, "How long to wait, in milliseconds.")
_SIGNAL = optional("signal", STRING, "The signal to wait for.")
_KEEPS_DEADLINE = Effect(reason="a running timer keeps its deadline")


def _build(source: NodeSource) -> WaitDetail:
    fields = source.fields
    signal, until, kind = fields.get("signal"), fields.get("until"), fields.get("kind")
    if not isinstance(kind, str):
        kind = "signal" if "signal" in fields else "until" if "until" in fields else "duration"
    on_timeout, has_timeout_route = timeout_route(fields)
    moment: Template | None = None
    if isinstance(until, str):
        moment = template_of(until, source.node.field_path("until")) if source.native else LiteralTemplate(until)
    return WaitDetail(
        kind=WaitKind(kind),
        duration_ms=duration_of(fields.get("duration_ms", fields.get("duration"))),
        until=moment,
        signal=signal if isinstance(signal, str) else None,
        on_timeout=on_timeout,
        has_timeout_route=has_timeout_route,
    )


def _caption(fields: JsonObject) -> str:
    if isinstance(fields.get("signal"), str):
        return f"for signal {fields['signal']}"
    if "until" in fields:
        return f"until {text_or_empty(fields['until'])}"
    return duration_text(fields.get("duration", fields.get("duration_ms")))


def _signal(fields: JsonObject) -> str:
    signal = fields.get("signal")
    return signal if isinstance(signal, str) else ""


KIND = NodeKind(
    type=NodeType.WAIT,
    shape=Shape(
        name="wait",
        title="wait",
        description="Waits for a time or for a signal.",
        fields=(
            optional("kind", _KINDS, "What is waited for; follows from the other fields."),
            optional("duration", ref("duration"), "How long to wait."),
            _DURATION_MS,
            optional("until", ref("moment"), "The moment to wait for, as an ISO timestamp or a template."),
            _SIGNAL,
            optional("timeout", ref("duration"), "How long to wait for the signal."),
            optional("on_timeout", ref("target"), "The next node if the signal does not arrive in time."),
        ),
        exactly_one=(("duration", "duration_ms", "until", "signal"),),
        needs=(("timeout", ("signal",)), ("on_timeout", ("timeout",))),
        conditions=(
            Condition(field="kind", equals="duration", then_any=("duration", "duration_ms")),
            Condition(field="kind", equals="until", then_any=("until",)),
            Condition(field="kind", equals="signal", then_any=("signal",)),
        ),
        hints={"for": "write `duration`", "seconds": "write `duration: 30s`", "event": "write `signal`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_wait",
            title="config of wait",
            description="Waits for a time or for a signal.",
            fields=(
                required("kind", _KINDS, "What is waited for."),
                _DURATION_MS,
                optional("duration", ref("published_duration"), "How long to wait."),
                optional("until", STRING, "The moment to wait for, as an ISO timestamp."),
                _SIGNAL,
            ),
            conditions=(
                Condition(field="kind", equals="duration", then_any=("duration_ms", "duration")),
                Condition(field="kind", equals="until", then_any=("until",)),
                Condition(field="kind", equals="signal", then_any=("signal",)),
            ),
        ),
    ),
    other_words=("sleep", "delay", "timer", "await", "listen"),
    gives="an empty object after a time; what the signal carried after a signal; `null` when the time ran out",
    build=_build,
    category=Category.TIME,
    caption=_caption,
    pace=Pace.WAITS,
    jq=(template("until"),),
    comparison=Comparison(
        aliases={"duration_ms": "duration"},
        elsewhere=frozenset({"kind"}),
        effects={
            "duration": _KEEPS_DEADLINE,
            "until": _KEEPS_DEADLINE,
            "signal": unsafe("a run in flight may wait for the old signal"),
        },
        signal=_signal,
    ),
)
