"""What changed in a workflow's contract: its name, input, output, state, exposure, governance, triggers and tests.

Callers send the input, so a narrower input breaks them. They read the output, so a wider output breaks them. A run in
flight keeps the input it started with.

Above it: `compare`. Below it: `schemas`. `nodes` compares nodes and routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue, json_pointer, object_or_empty
from penstock.base.text import clean
from penstock.definitions.diff.fields import effect_of
from penstock.definitions.diff.model import Change, InFlight, Subject
from penstock.definitions.diff.schemas import SchemaChange, compare_schemas
from penstock.definitions.diff.values import alike, brief, change_of, kind_of
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.node_parts.changes import Effect
from penstock.definitions.outline.document import Outline, begins_run, gives_result

__all__ = ["compare_contract"]

_NOT_REPLAYED = "no run in flight reads it"
_BEFORE_A_RUN = "governance applies before a run starts"
_RISKS = ("low", "medium", "high", "critical")
_DRAFTS = ("never", "on_risk", "always")
# Members of a native document that other functions of this module, or `nodes`, compare.
_COMPARED_ELSEWHERE = frozenset(
    {"penstock", "name", "input", "output", "state", "nodes", "edges", "on_error"}
    | {"expose", "governance", "triggers", "tests", "document", "state_schema"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One of the two documents, with access to what the formats name differently."""

    document: JsonObject
    outline: Outline

    @property
    def about(self) -> JsonObject:
        return self.document if self.outline.native else object_or_empty(self.document.get("document"))

    @property
    def about_path(self) -> str:
        return "" if self.outline.native else "/document"

    def name(self) -> str:
        name = self.about.get("name")
        return name if isinstance(name, str) else ""

    def described(self, key: str) -> JsonValue:
        """The version, title or description. A native document without a version has the default version."""
        return self.about.get(key, "0.0.0" if self.outline.native and key == "version" else None)

    def input(self) -> tuple[JsonValue, str]:
        """The schema of the input; the input of a run is always an object."""
        if self.outline.native and "input" in self.document:
            return self.document["input"], "/input"
        for node in self.outline.nodes:
            if begins_run(node) and "input_schema" in node.fields:
                return node.fields["input_schema"], node.field_path("input_schema")
        return {"type": "object"}, "/input" if self.outline.native else "/nodes"

    def outputs(self) -> dict[str, tuple[JsonValue, str]]:
        """The schema of the result under an empty name, and the schemas of single ends where they differ."""
        ends = [node for node in self.outline.nodes if gives_result(node)]
        found = {
            node.id: (node.fields["output_schema"], node.field_path("output_schema"))
            for node in ends
            if "output_schema" in node.fields
        }
        if self.outline.native and "output" in self.document:
            return {"": (self.document["output"], "/output"), **found}
        if len(ends) == 1 and found:
            return {"": found[ends[0].id]}
        return found

    def state(self) -> tuple[JsonValue, str]:
        key = "state" if self.outline.native else "state_schema"
        return self.document.get(key, {}), f"/{key}"


def compare_contract(before: JsonObject, after: JsonObject, outlines: tuple[Outline, Outline]) -> Iterator[Change]:
    """Yield everything that changed outside the nodes."""
    old = _Side(document=before, outline=outlines[0])
    new = _Side(document=after, outline=outlines[1])
    yield from _format(old, new)
    yield from _about(old, new)
    yield from _input(old, new)
    yield from _output(old, new)
    yield from _state(old, new)
    yield from _expose(old, new)
    yield from _governance(object_or_empty(before.get("governance")), object_or_empty(after.get("governance")))
    yield from _triggers(_objects(before.get("triggers")), _objects(after.get("triggers")))
    yield from _tests(_objects(before.get("tests")), _objects(after.get("tests")))
    yield from _rest(old, new)


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# The document


def _format(old: _Side, new: _Side) -> Iterator[Change]:
    names = {True: "native", False: "published"}
    was, now = names[old.outline.native], names[new.outline.native]
    if was != now:
        text = f"The document is now in the {now} format (before: {was})."
        reason = "expressions have another root, so a replay would compute different values"
        effect = Effect(in_flight=InFlight.UNSAFE, reason=reason)
        yield change_of(Subject.DOCUMENT, "/penstock" if now == "native" else "", text, (was, now), effect)


def _about(old: _Side, new: _Side) -> Iterator[Change]:
    was, now = old.name(), new.name()
    if was != now:
        text = f"The workflow is now called {brief(now)} (before: {brief(was)})."
        effect = Effect(breaking=True, reason="callers and parent workflows name it")
        yield change_of(Subject.DOCUMENT, f"{new.about_path}/name", text, (was, now), effect)
    for key in ("version", "title", "description"):
        before, after = old.described(key), new.described(key)
        if not alike(before, after):
            text = f"The version is now {brief(after)} (before: {brief(before)})."
            message = text if key == "version" else f"The {key} changed."
            path = f"{new.about_path}/{key}"
            yield change_of(Subject.DOCUMENT, path, message, (before, after), Effect(reason="it is only a description"))


_REASONS: Mapping[str, str] = {
    "timeout": "the deadline of a run in flight is already recorded",
    "secrets": "secrets are looked up when an attempt begins",
    "checkpointing": "only later checkpoints are written differently; a replay does not read them",
    "labels": "it is only a description",
    "metadata": "it is only a description",
    "signature": "it identifies the signer and does not affect what the document does",
}


def _rest(old: _Side, new: _Side) -> Iterator[Change]:
    """Members without a rule of their own, and unknown members."""
    about = frozenset({"name", "version", "title", "description"})
    pairs = [(old.document, new.document, "", _COMPARED_ELSEWHERE | about)]
    if not old.outline.native and not new.outline.native:
        pairs.append((old.about, new.about, "/document", about))
    for before, after, path, skipped in pairs:
        for key in dict.fromkeys((*before, *after)):
            was, now = before.get(key), after.get(key)
            if key in skipped or (alike(was, now) and (key in before) == (key in after)):
                continue
            word = "changed" if key in before and key in after else "is new" if key in after else "is gone"
            text = f"{brief(key)} {word}."
            yield change_of(
                Subject.DOCUMENT, path + json_pointer([key]), text, (was, now), _effect(key, was, now, path)
            )


def _effect(key: str, before: JsonValue, after: JsonValue, path: str) -> Effect:
    if key == "defaults":
        return effect_of("", "retry", (object_or_empty(before).get("retry"), object_or_empty(after).get("retry")))
    if key in _REASONS or path:
        return Effect(reason=_REASONS.get(key, "it is only a description"))
    return Effect(in_flight=InFlight.UNKNOWN, reason="this member is unknown")


# Schemas


def _input(old: _Side, new: _Side) -> Iterator[Change]:
    (was, _), (now, path) = old.input(), new.input()
    for change in compare_schemas(was, now, "input", defaults_are_filled=True):
        reason = "callers may be refused with input that was valid before" if change.narrows else ""
        yield _from_schema(
            change,
            Subject.INPUT,
            path,
            breaking=change.narrows,
            in_flight=InFlight.UNKNOWN if change.narrows else InFlight.SAFE,
            reason=f"{reason}, and the input of a run in flight may not fit" if reason else "callers need not change",
        )


def _output(old: _Side, new: _Side) -> Iterator[Change]:
    was, now = old.outputs(), new.outputs()
    for name in dict.fromkeys((*was, *now)):
        if name and not all(any(node.id == name for node in side.outline.nodes) for side in (old, new)):
            continue  # the end itself was added or removed
        what = f"output at {brief(name)}" if name else "output"
        before, before_path = was.get(name, ({}, ""))
        after, after_path = now.get(name, ({}, before_path))
        for change in compare_schemas(before, after, what):
            wider = "callers may get results that were not possible before"
            yield _from_schema(
                change,
                Subject.OUTPUT,
                after_path,
                breaking=change.widens,
                in_flight=InFlight.SAFE,
                reason=wider if change.widens else "callers need not change",
            )


def _state(old: _Side, new: _Side) -> Iterator[Change]:
    (was, _), (now, path) = old.state(), new.state()
    for change in compare_schemas(was, now, "state"):
        # The input of a published workflow becomes its state, and is checked as state.
        breaking = change.narrows and not new.outline.native
        in_flight, reason = InFlight.SAFE, "values that are already in the state still fit"
        if change.keyword in ("reducer", "default"):
            in_flight, reason = InFlight.UNSAFE, "a replay would build another state from the same results"
        elif change.narrows:
            in_flight, reason = InFlight.UNKNOWN, "the state of a run in flight may not fit any more"
        if breaking:
            reason = "the input becomes the state: callers may be refused with input that was valid before"
        yield _from_schema(change, Subject.STATE, path, breaking=breaking, in_flight=in_flight, reason=reason)


def _from_schema(
    change: SchemaChange, subject: Subject, path: str, *, breaking: bool, in_flight: InFlight, reason: str
) -> Change:
    return Change(
        kind=change.kind,
        subject=subject,
        path=path + change.path,
        message=change.message,
        before=change.before,
        after=change.after,
        breaking=breaking,
        in_flight=in_flight,
        reason=reason,
    )


# Exposure and governance


def _expose(old: _Side, new: _Side) -> Iterator[Change]:
    was, now = object_or_empty(old.document.get("expose")), object_or_empty(new.document.get("expose"))
    # How callers address it; the default is the workflow's name.
    addresses = {"tool": "name", "prompt": "name", "resource": "uri"}
    for kind, address in addresses.items():
        path = f"/expose/{kind}"
        before, after = was.get(kind), now.get(kind)
        if _is_exposed(before) != _is_exposed(after):
            gone = not _is_exposed(after)
            message = f"The workflow is {'no longer' if gone else 'now'} listed as a {kind}."
            reason = f"callers that use the {kind} no longer find it" if gone else _NOT_REPLAYED
            effect = Effect(breaking=gone, reason=reason)
            values = (before, None) if gone else (None, after)
            yield change_of(Subject.EXPOSE, path, message, values, effect)
        elif _is_exposed(before):
            old_fields = {address: old.name(), **object_or_empty(before)}
            new_fields = {address: new.name(), **object_or_empty(after)}
            yield from _exposed_fields(kind, address, old_fields, new_fields)
    if _is_exposed(was.get("a2a")) != _is_exposed(now.get("a2a")):
        gone = _is_exposed(was.get("a2a"))
        message = f"The agent is {'no longer' if gone else 'now'} offered over A2A."
        effect = Effect(breaking=gone, reason="clients no longer find its card" if gone else _NOT_REPLAYED)
        yield change_of(Subject.EXPOSE, "/expose/a2a", message, (was.get("a2a"), now.get("a2a")), effect)
    for kind in ("sampling", "elicitation", "roots"):
        if _is_exposed(was.get(kind)) != _is_exposed(now.get(kind)):
            gone = _is_exposed(was.get(kind))
            message = f"The workflow {'no longer handles' if gone else 'now handles'} {kind} for clients."
            reason = "clients may have no other workflow for it" if gone else _NOT_REPLAYED
            effect = Effect(breaking=gone, reason=reason)
            yield change_of(Subject.EXPOSE, f"/expose/{kind}", message, (was.get(kind), now.get(kind)), effect)


def _is_exposed(value: JsonValue) -> bool:
    return value is True or isinstance(value, dict)


def _exposed_fields(kind: str, address: str, before: JsonObject, after: JsonObject) -> Iterator[Change]:
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if alike(was, now):
            continue
        breaking = key in (address, "mime_type", "result")
        message = f"The {clean(key)} of the {kind} is now {brief(now)} (before: {brief(was)})."
        yield change_of(
            Subject.EXPOSE,
            f"/expose/{kind}{json_pointer([key])}",
            message if breaking else f"The {clean(key)} of the {kind} changed.",
            (was, now),
            Effect(breaking=breaking, reason=f"callers use the {kind} by its {key}" if breaking else _NOT_REPLAYED),
        )


def _governance(before: JsonObject, after: JsonObject) -> Iterator[Change]:
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if alike(was, now):
            continue
        if key == "scopes":
            yield from _scopes(_texts(was), _texts(now))
            continue
        stricter = _is_stricter(key, was, now)
        reasons = {
            "risk": "calls that went through may now be held for approval",
            "confirm": "callers now must confirm",
            "draft": "calls that went through may now wait as drafts",
            "rate": "callers may now be throttled or refused",
        }
        yield change_of(
            Subject.GOVERNANCE,
            f"/governance{json_pointer([key])}",
            f"{brief(key)} of the governance is now {brief(now)} (before: {brief(was)}).",
            (was, now),
            Effect(breaking=stricter, reason=reasons.get(key, "") if stricter else _BEFORE_A_RUN),
        )


def _scopes(before: list[str], after: list[str]) -> Iterator[Change]:
    for index, scope in enumerate(after):
        if scope not in before:
            effect = Effect(breaking=True, reason="callers without the scope are refused")
            text = f"Callers now need the scope {brief(scope)}."
            yield change_of(Subject.GOVERNANCE, f"/governance/scopes/{index}", text, (None, scope), effect)
    for index, scope in enumerate(before):
        if scope not in after:
            text = f"Callers no longer need the scope {brief(scope)}."
            path = f"/governance/scopes/{index}"
            yield change_of(Subject.GOVERNANCE, path, text, (scope, None), Effect(reason=_BEFORE_A_RUN))


def _texts(value: JsonValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _is_stricter(key: str, before: JsonValue, after: JsonValue) -> bool:
    match key:
        case "risk":
            return _position(_RISKS, after) > _position(_RISKS, before)
        case "draft":
            return _position(_DRAFTS, after) > _position(_DRAFTS, before)
        case "confirm":
            return after is True
        case "rate":
            now, was = _rate(after), _rate(before)
            return now is not None and (was is None or now < was)
        case _:
            return False


def _position(scale: tuple[str, ...], value: JsonValue) -> int:
    return scale.index(value) if isinstance(value, str) and value in scale else 0


def _rate(value: JsonValue) -> float | None:
    """Calls per millisecond, or None for no limit."""
    fields = object_or_empty(value)
    limit, per = fields.get("limit"), fields.get("per")
    per_ms = parse_native_duration_ms(per) if isinstance(per, str | int) else None
    return limit / per_ms if isinstance(limit, int | float) and per_ms else None


# Triggers and tests


def _triggers(before: list[JsonObject], after: list[JsonObject]) -> Iterator[Change]:
    was, now = _by_key(before), _by_key(after)
    for key in dict.fromkeys((*was, *now)):
        old, old_index = was.get(key, (None, 0))
        new, new_index = now.get(key, (None, 0))
        if alike(old, new):
            continue
        kind = "webhook" if "webhook" in object_or_empty(old or new) else "schedule"
        breaking = (
            _breaks_senders(object_or_empty(old), object_or_empty(new))
            if kind == "webhook" and old is not None
            else False
        )
        word = {"added": "is new", "removed": "is gone", "changed": "changed"}[kind_of(old, new)]
        yield change_of(
            Subject.TRIGGER,
            f"/triggers/{old_index if new is None else new_index}",
            f"The {kind} {brief(key)} {word}.",
            (old, new),
            Effect(
                breaking=breaking,
                reason="senders of requests must change" if breaking else "triggers only start new runs",
            ),
        )


def _by_key(triggers: list[JsonObject]) -> dict[str, tuple[JsonObject, int]]:
    found: dict[str, tuple[JsonObject, int]] = {}
    for index, trigger in enumerate(triggers):
        kind = "webhook" if "webhook" in trigger else "schedule"
        number = 1 + sum(("webhook" in other) == ("webhook" in trigger) for other in triggers[:index])
        name = trigger.get("id")
        found.setdefault(name if isinstance(name, str) else f"{kind} {number}", (trigger, index))
    return found


def _breaks_senders(before: JsonObject, after: JsonObject) -> bool:
    if before.get("enabled") is False:
        return False
    was, now = object_or_empty(before.get("webhook")), object_or_empty(after.get("webhook"))
    moved = any(not alike(was.get(key), now.get(key)) for key in ("path", "secret", "verify", "action", "signal"))
    return moved or was.get("method", "POST") != now.get("method", "POST") or after.get("enabled") is False


def _tests(before: list[JsonObject], after: list[JsonObject]) -> Iterator[Change]:
    was = {str(test.get("name")): (test, index) for index, test in enumerate(before)}
    now = {str(test.get("name")): (test, index) for index, test in enumerate(after)}
    for name in dict.fromkeys((*was, *now)):
        old, old_index = was.get(name, (None, 0))
        new, new_index = now.get(name, (None, 0))
        if not alike(old, new):
            word = {"added": "is new", "removed": "is gone", "changed": "changed"}[kind_of(old, new)]
            yield change_of(
                Subject.TEST,
                f"/tests/{old_index if new is None else new_index}",
                f"The test {brief(name)} {word}.",
                (old, new),
                Effect(reason="tests do not affect runs"),
            )
