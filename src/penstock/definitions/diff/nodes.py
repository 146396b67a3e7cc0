"""What changed in the nodes of a workflow: which nodes there are, what they do, and where they lead.

A run in flight stays on the version it started with. Whether it could be moved depends on its history: replayed on the
new version, it must request the same things in the same order. So structure, conditions and everything that is computed
again matter; the input of an attempt matters only for future attempts.

Above it: `compare`. Below it: `outline.placement` makes both formats look alike, `fields` knows what each field means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.base.json import JsonValue
from penstock.definitions.diff.error_routes import compare_error_routes
from penstock.definitions.diff.fields import comparable_fields, comparison_of, effect_of
from penstock.definitions.diff.model import Change, InFlight, Subject
from penstock.definitions.diff.values import alike, brief, change_of
from penstock.definitions.node_parts.changes import Effect
from penstock.definitions.outline.document import OutlineNode
from penstock.definitions.outline.placement import Placement

__all__ = ["compare_nodes"]

_NEVER_REACHED = "no run can have reached it"
_PASSED = "a run in flight may already have taken the other route"
# Longer values are not readable inside a sentence.
_SHOWN_CHARACTERS_MAX = 40


def compare_nodes(before: Placement, after: Placement) -> Iterator[Change]:
    """Yield everything that changed in the nodes, in the order of the new document; removed nodes come last."""
    comparison = _Comparison(before=before, after=after)
    yield from comparison.entry()
    for node in after.nodes.values():
        old = before.nodes.get(node.id)
        yield from comparison.added(node) if old is None else comparison.changed(old, node)
    for node in before.nodes.values():
        if node.id not in after.nodes:
            yield from comparison.removed(node)


@dataclass(slots=True, kw_only=True)
class _Comparison:
    before: Placement
    after: Placement
    _reached: set[str] = field(default_factory=set)
    _lost_signals: set[str] = field(default_factory=set)
    _new_steps: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reached = self.before.reached()
        self._lost_signals = _signals(self.before) - _signals(self.after)
        for node in self.after.nodes.values():
            if node.id in self.before.nodes:
                for target in self.after.steps(node):
                    self._new_steps.setdefault(target, node.id)

    def unsafe(self, node: OutlineNode, reason: str) -> Effect:
        """The effect of a change that a replay would notice, if a run can have reached the node at all."""
        if node.id not in self._reached:
            return Effect(reason=_NEVER_REACHED)
        return Effect(in_flight=InFlight.UNSAFE, reason=reason)

    # Which nodes there are

    def entry(self) -> Iterator[Change]:
        was, now = self.before.outline.entry, self.after.outline.entry
        if was != now:
            text = f"A run now begins with {brief(now)} (before: {brief(was)})."
            effect = Effect(in_flight=InFlight.UNSAFE, reason="every run in flight began elsewhere")
            yield change_of(Subject.ROUTE, "/nodes", text, (was, now), effect)

    def added(self, node: OutlineNode) -> Iterator[Change]:
        source = self._new_steps.get(node.id)
        starts = {self.after.outline.entry, *(route.target for route in self.after.outline.error_routes)}
        effect = Effect(reason="nothing that existed before leads to it")
        if source is not None:
            effect = Effect(in_flight=InFlight.UNSAFE, reason=f"{brief(source)}, which existed before, leads to it")
        elif node.id in starts:
            effect = Effect(in_flight=InFlight.UNSAFE, reason="the run itself leads to it")
        text = f"The node {brief(node.id)} (of the type {brief(node.type)}) is new."
        yield change_of(Subject.NODE, node.path, text, (None, _written(node)), effect)

    def removed(self, node: OutlineNode) -> Iterator[Change]:
        effect = self.unsafe(node, "a run in flight may have passed it or be in it")
        lost = _signal(node) in self._lost_signals
        if lost:
            reason = f"the workflow no longer receives the signal {brief(_signal(node))}"
            effect = Effect(breaking=True, in_flight=effect.in_flight, reason=reason)
        text = f"The node {brief(node.id)} (of the type {brief(node.type)}) was removed."
        yield change_of(Subject.NODE, node.path, text, (_written(node), None), effect)

    def changed(self, old: OutlineNode, new: OutlineNode) -> Iterator[Change]:
        """What changed in a node that is in both versions."""
        if old.type != new.type:
            text = f"The node {brief(new.id)} is now of the type {brief(new.type)} (before: {brief(old.type)})."
            effect = self.unsafe(old, "its history records another kind of work")
            yield change_of(Subject.NODE, f"{new.path}/type", text, (old.type, new.type), effect)
        else:
            yield from self._fields(old, new)
        old_body, new_body = self.before.body_of(old), self.after.body_of(new)
        if old_body != new_body:
            text = f"The node {brief(new.id)} moved to {_body(new_body)} (before: in {_body(old_body)})."
            effect = self.unsafe(old, "its history belongs to another body")
            yield change_of(Subject.NODE, new.path, text, (old_body, new_body), effect)
        yield from self._branches(old, new)
        yield from _Routes(comparison=self, old=old, new=new).changes()
        was, now = old.fields.get("on_error"), new.fields.get("on_error")
        path = new.field_path("on_error")
        for change in compare_error_routes(was, now, path, brief(new.id)):
            reached = old.id in self._reached
            yield change if reached else replace(change, in_flight=InFlight.SAFE, reason=_NEVER_REACHED)

    # What they do

    def _fields(self, old: OutlineNode, new: OutlineNode) -> Iterator[Change]:
        was = comparable_fields(old, native=self.before.outline.native)
        now = comparable_fields(new, native=self.after.outline.native)
        for name in dict.fromkeys((*now, *was)):
            before, after = was.get(name), now.get(name)
            if before is not None and after is not None and alike(before.meaning, after.meaning):
                continue
            values: tuple[JsonValue, JsonValue] = (
                None if before is None else before.written,
                None if after is None else after.written,
            )
            described = after or before
            path = new.path if described is None or after is None else new.field_path(described.name)
            effect = effect_of(new.type, name, values)
            if effect.in_flight is not InFlight.SAFE and old.id not in self._reached:
                effect = Effect(reason=_NEVER_REACHED)
            if name == "signal" and _signal(old) in self._lost_signals:
                reason = f"the workflow no longer receives the signal {brief(_signal(old))}"
                effect = Effect(breaking=True, in_flight=effect.in_flight, reason=reason)
            yield change_of(Subject.NODE, path, _field_text(new.id, name, values), values, effect)

    def _branches(self, old: OutlineNode, new: OutlineNode) -> Iterator[Change]:
        was = {self.before.outline.bodies[body].name: body for body in old.bodies if body in self.before.outline.bodies}
        now = {self.after.outline.bodies[body].name: body for body in new.bodies if body in self.after.outline.bodies}
        effect = self.unsafe(old, "a run in flight may have started other branches")
        for name in now:
            if name and name not in was:
                text = f"The branch {brief(name)} of {brief(new.id)} is new."
                yield change_of(Subject.BRANCH, self.after.outline.bodies[now[name]].path, text, (None, name), effect)
        for name in was:
            if name and name not in now:
                text = f"The branch {brief(name)} of {brief(new.id)} was removed."
                yield change_of(Subject.BRANCH, self.before.outline.bodies[was[name]].path, text, (name, None), effect)
        common = [name for name in was if name in now]
        if common != [name for name in now if name in was]:
            text = f"The branches of {brief(new.id)} are in another order."
            yield change_of(Subject.BRANCH, new.field_path("branches"), text, (list(was), list(now)), effect)
        for name in common:
            first, second = self.before.outline.bodies[was[name]], self.after.outline.bodies[now[name]]
            if first.entry != second.entry:
                what = f"The branch {brief(name)} of {brief(new.id)}" if name else f"The inside of {brief(new.id)}"
                text = f"{what} now begins with {brief(second.entry)} (before: {brief(first.entry)})."
                yield change_of(Subject.BRANCH, second.path, text, (first.entry, second.entry), effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Routes:
    """The routes of one node in both versions. Error routes are compared elsewhere."""

    comparison: _Comparison
    old: OutlineNode
    new: OutlineNode

    def changes(self) -> Iterator[Change]:
        yield from self._cases()
        phrases = {
            "always": f"After {brief(self.new.id)} a run now goes to",
            "otherwise": f"When no condition of {brief(self.new.id)} holds, a run now goes to",
            "timeout": f"When {brief(self.new.id)} times out, a run now goes to",
        }
        was, now = self._plain(self.comparison.before, self.old), self._plain(self.comparison.after, self.new)
        for key, phrase in phrases.items():
            if key in was or key in now:
                before, before_path = was.get(key, (None, ""))
                after, after_path = now.get(key, (None, before_path))
                if (before, key in was) != (after, key in now):
                    missing = "nowhere"
                    target = _target(after) if key in now else missing
                    earlier = _target(before) if key in was else missing
                    text = f"{phrase} {target} (before: {earlier})."
                    yield self._change(after_path, text, (before, after))

    def _change(self, path: str, text: str, values: tuple[JsonValue, JsonValue]) -> Change:
        return change_of(Subject.ROUTE, path, text, values, self.comparison.unsafe(self.old, _PASSED))

    @staticmethod
    def _plain(placement: Placement, node: OutlineNode) -> dict[str, tuple[str | None, str]]:
        """The targets without a condition; None leaves the body."""
        names = {"next": "always", "edge": "always", "else": "otherwise", "default": "otherwise", "timeout": "timeout"}
        found: dict[str, tuple[str | None, str]] = {}
        for route in node.routes:
            if route.kind in names:
                target = None if placement.leaves(node, route) else route.target
                found.setdefault(names[route.kind], (target, route.path))
        return found

    @staticmethod
    def _conditions(placement: Placement, node: OutlineNode) -> list[tuple[str, str | None, str]]:
        return [
            (route.label.strip(), None if placement.leaves(node, route) else route.target, route.path)
            for route in node.routes
            if route.kind in ("case", "then")
        ]

    def _cases(self) -> Iterator[Change]:
        was = self._conditions(self.comparison.before, self.old)
        now = self._conditions(self.comparison.after, self.new)
        if [case[:2] for case in was] == [case[:2] for case in now]:
            return
        old_conditions, new_conditions = [case[0] for case in was], [case[0] for case in now]
        name = brief(self.new.id)
        if sorted(case[:2] for case in map(_sortable, was)) == sorted(case[:2] for case in map(_sortable, now)):
            text = f"The cases of {name} are tried in another order."
            yield self._change(now[0][2], text, (list(old_conditions), list(new_conditions)))
            return
        if len(was) == len(now) and [case[1] for case in was] == [case[1] for case in now]:
            for (before, target, _), (after, _, path) in zip(was, now, strict=True):
                if before != after:
                    text = f"{name} now leads to {_target(target)} when {brief(after)} (before: when {brief(before)})."
                    yield self._change(path, text, (before, after))
            return
        yield from self._case_by_case(was, now)

    def _case_by_case(
        self, was: list[tuple[str, str | None, str]], now: list[tuple[str, str | None, str]]
    ) -> Iterator[Change]:
        name = brief(self.new.id)
        old_targets, new_targets = {case[0]: case[1] for case in was}, {case[0]: case[1] for case in now}
        for condition, target, path in now:
            if condition not in old_targets:
                text = f"{name} now leads to {_target(target)} when {brief(condition)}."
                yield self._change(path, text, (None, {"when": condition, "next": target}))
            elif old_targets[condition] != target:
                earlier = _target(old_targets[condition])
                text = f"When {brief(condition)}, {name} now leads to {_target(target)} (before: {earlier})."
                yield self._change(path, text, (old_targets[condition], target))
        for condition, target, path in was:
            if condition not in new_targets:
                text = f"{name} no longer leads to {_target(target)} when {brief(condition)}."
                yield self._change(path, text, ({"when": condition, "next": target}, None))


def _sortable(case: tuple[str, str | None, str]) -> tuple[str, str, str]:
    return case[0], case[1] or "", case[2]


def _target(target: str | None) -> str:
    return "the end of its body" if target is None else brief(target)


def _body(body: str) -> str:
    return brief(body) if body else "the top level"


def _written(node: OutlineNode) -> JsonValue:
    return {"id": node.id, "type": node.type, **node.fields}


def _field_text(node_id: str, name: str, values: tuple[JsonValue, JsonValue]) -> str:
    before, after = values
    if before is None:
        return f"The node {brief(node_id)} now has {brief(name)}{_shown(after)}."
    if after is None:
        return f"The node {brief(node_id)} no longer has {brief(name)}{_shown(before)}."
    if _shown(before) and _shown(after):
        return f"{brief(name)} of {brief(node_id)} is now {brief(after)} (before: {brief(before)})."
    return f"{brief(name)} of {brief(node_id)} changed."


def _shown(value: JsonValue) -> str:
    simple = isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _SHOWN_CHARACTERS_MAX)
    return f": {brief(value)}" if simple else ""


def _signal(node: OutlineNode) -> str:
    """The signal that a node waits for; empty if it waits for none."""
    read = comparison_of(node.type).signal
    return "" if read is None else read(node.fields)


def _signals(placement: Placement) -> set[str]:
    return {_signal(node) for node in placement.nodes.values()} - {""}
