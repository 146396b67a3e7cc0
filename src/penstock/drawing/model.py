"""A workflow as a picture: figures, panels and arrows with their words, before anything has a place or a format.

Above it: `mermaid` (Mermaid) and `svg`. Below it: `definitions.outline.document` and `placement`. Every text in it is
cleaned but not escaped. A broken document gives a picture too: targets that do not exist become figures of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.definitions.outline.document import OutlineNode, Route, is_native, outline_of
from penstock.definitions.outline.placement import Placement, placement_of

__all__ = ["ENTRY", "EXIT", "Arrow", "Family", "Figure", "Panel", "Picture", "picture_of"]

# Where an arrow comes from or leads to when that is not a figure: the border of its panel.
ENTRY, EXIT = -1, -2


class Family(StrEnum):
    """What kind of thing a figure is; a family has one look."""

    TERMINAL = "terminal"
    FAILURE = "failure"
    WORK = "work"
    MODEL = "model"
    DECISION = "decision"
    PERSON = "person"
    TIME = "time"
    DATA = "data"
    GROUP = "group"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One node: its id, a line that says what it does, notes in small print, and everything in a tooltip."""

    key: int
    name: str
    caption: str
    family: Family
    notes: str = ""
    tooltip: str = ""
    panels: tuple[Panel, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """One route between figures of the same panel. `kind` is the route's kind, or `entry` or `branch`."""

    source: int
    target: int
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One body: its figures in document order, the arrows between them, and the figure that comes first."""

    name: str
    entry: int | None
    figures: tuple[Figure, ...]
    arrows: tuple[Arrow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A whole workflow."""

    name: str
    version: str
    title: str
    root: Panel


_FAMILIES: Mapping[str, Family] = {
    "start": Family.TERMINAL,
    "end": Family.TERMINAL,
    "continue_as_new": Family.TERMINAL,
    "fail": Family.FAILURE,
    "step": Family.WORK,
    "tool_call": Family.WORK,
    "http": Family.WORK,
    "subworkflow": Family.WORK,
    "llm_call": Family.MODEL,
    "agent_delegate": Family.MODEL,
    "switch": Family.DECISION,
    "interrupt": Family.PERSON,
    "wait": Family.TIME,
    "emit": Family.TIME,
    "set_state": Family.DATA,
    "parallel": Family.GROUP,
    "race": Family.GROUP,
    "for_each": Family.GROUP,
    "loop": Family.GROUP,
}


def picture_of(document: JsonObject) -> Picture:
    """Read the picture of a document in either format; never fails."""
    about = document if is_native(document) else _object(document.get("document"))
    painter = _Painter(placement=placement_of(outline_of(document)))
    return Picture(
        name=_text(about.get("name")),
        version=_text(about.get("version")),
        title=_text(about.get("title")),
        root=painter.root(document),
    )


@dataclass(slots=True, kw_only=True)
class _Painter:
    placement: Placement
    members: dict[str, list[tuple[int, OutlineNode]]] = field(default_factory=dict)
    _extra_keys: int = 0

    def root(self, document: JsonObject) -> Panel:
        nodes = self.placement.outline.nodes
        self._extra_keys = len(nodes)
        for key, node in enumerate(nodes):
            body = self.placement.body_of(node)
            self.members.setdefault(body if self._is_shown(body) else "", []).append((key, node))
        panel = _PanelPainter(painter=self, body="", members=self.members.get("", []))
        panel.add_nodes()
        panel.add_entry(self.placement.outline.entry)
        panel.add_error_routes(self.placement.outline.error_routes, document.get("on_error"))
        return panel.finished("")

    def _is_shown(self, body: str) -> bool:
        """Whether a body ends up in the picture; ids that contradict each other can make bodies contain themselves."""
        around = list(self.placement.enclosing(body))
        return around[-1] == "" and all(self._belongs_to_owner(name) for name in around[:-1])

    def _belongs_to_owner(self, body: str) -> bool:
        owner = self.placement.nodes.get(self.placement.outline.bodies[body].owner or "")
        return owner is not None and body in owner.bodies and self.placement.holds_nodes(body)

    def panels(self, node: OutlineNode) -> Iterator[Panel]:
        """The bodies of a node; a second node with the same id has none, the first one has them."""
        if self.placement.nodes.get(node.id) is not node:
            return
        for body_id in node.bodies:
            body = self.placement.outline.bodies.get(body_id)
            if body is None or body.owner != node.id or not self._is_shown(body_id):
                continue
            panel = _PanelPainter(painter=self, body=body_id, members=self.members.get(body_id, []))
            panel.add_nodes()
            panel.add_entry(body.entry)
            yield panel.finished(clean(body.name))

    def new_key(self) -> int:
        self._extra_keys += 1
        return self._extra_keys


@dataclass(slots=True, kw_only=True)
class _PanelPainter:
    painter: _Painter
    body: str
    members: list[tuple[int, OutlineNode]]
    figures: list[Figure] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    _entry: int | None = None
    _missing: dict[str, int] = field(default_factory=dict)
    _keys: dict[str, int] = field(default_factory=dict)

    def add_nodes(self) -> None:
        for key, node in self.members:
            self._keys.setdefault(node.id, key)
        for key, node in self.members:
            self.figures.append(_figure(key, node, tuple(self.painter.panels(node))))
            for route in node.routes:
                leaves = self.painter.placement.leaves(node, route)
                target = EXIT if leaves else self._target(route.target)
                self.arrows.append(Arrow(source=key, target=target, kind=route.kind, label=_label(node, route)))
            self._add_branches(key, node)

    def _add_branches(self, key: int, node: OutlineNode) -> None:
        """Branches whose nodes stand beside the fork are arrows with the branch's name."""
        for body_id in node.bodies:
            body = self.painter.placement.outline.bodies.get(body_id)
            if body is not None and body.entry is not None and not self.painter.placement.holds_nodes(body_id):
                label = clean(body.name)
                self.arrows.append(Arrow(source=key, target=self._target(body.entry), kind="branch", label=label))

    def add_entry(self, entry: str | None) -> None:
        if entry is None:
            return
        self._entry = self._target(entry)
        # A start node says by itself that the run begins there.
        if not any(figure.key == self._entry and figure.family is Family.TERMINAL for figure in self.figures):
            self.arrows.insert(0, Arrow(source=ENTRY, target=self._entry, kind="entry"))

    def add_error_routes(self, routes: tuple[Route, ...], raw: JsonValue) -> None:
        if not routes:
            return
        figure = Figure(
            key=self.painter.new_key(),
            name="any error",
            caption="",
            family=Family.FAILURE,
            tooltip="Where the run goes when a node fails and has no route of its own",
        )
        self.figures.append(figure)
        for route in routes:
            target = EXIT if route.target is None else self._target(route.target)
            codes = _codes(raw, route)
            self.arrows.append(Arrow(source=figure.key, target=target, kind="error", label=codes))

    def _target(self, name: str | None) -> int:
        if name is None:
            return EXIT
        if name in self._keys:
            return self._keys[name]
        if name not in self._missing:
            known = name in self.painter.placement.nodes
            key = self._missing[name] = self.painter.new_key()
            caption = "in another body" if known else "unknown node"
            self.figures.append(Figure(key=key, name=clean(name), caption=caption, family=Family.MISSING))
        return self._missing[name]

    def finished(self, name: str) -> Panel:
        return Panel(name=name, entry=self._entry, figures=tuple(self.figures), arrows=tuple(self.arrows))


def _figure(key: int, node: OutlineNode, panels: tuple[Panel, ...]) -> Figure:
    node_type = clean(node.type)
    describe = _DETAILS.get(node.type)
    detail = clean(describe(node.fields)) if describe is not None else ""
    about = (_text(node.fields.get("title")), _text(node.fields.get("description")))
    caption = f"{node_type} · {detail}" if detail else node_type
    return Figure(
        key=key,
        name=clean(node.id),
        caption="" if caption == clean(node.id) else caption,
        notes=" · ".join(_notes(node.fields)),
        family=_FAMILIES.get(node.type, Family.MISSING),
        tooltip="\n".join(line for line in (clean(node.id), caption, *about) if line),
        panels=panels,
    )


def _notes(fields: JsonObject) -> Iterator[str]:
    retry = fields.get("retry")
    tries = retry.get("max_attempts") if isinstance(retry, dict) else None
    if isinstance(tries, int) and tries > 1:
        yield f"{tries} tries"
    if fields.get("effects") == "at_most_once":
        yield "at most once"
    if "compensate" in fields:
        yield "undo"
    if isinstance(fields.get("timeout"), str | int | float) and "on_timeout" not in fields:
        yield f"limit {_duration(fields['timeout'])}"


def _label(node: OutlineNode, route: Route) -> str:
    if route.kind == "error":
        return _codes(node.fields.get("on_error"), route)
    if route.kind == "timeout":
        timeout = node.fields.get("timeout")
        return f"after {_duration(timeout)}" if isinstance(timeout, str | int | float) else "timeout"
    return clean(route.label)


def _codes(raw: JsonValue, route: Route) -> str:
    """The error codes of a route; its path tells which of several it is."""
    index = route.path.split("/")[-2]
    chosen = raw[int(index)] if isinstance(raw, list) and index.isdigit() and int(index) < len(raw) else raw
    fields = _object(chosen)
    codes = fields.get("codes")
    named = [_text(code) for code in (codes if isinstance(codes, list) else [fields.get("code")])]
    return ", ".join(code for code in named if code) or "any error"


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    return clean(value) if isinstance(value, str) else ""


def _duration(value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return clean(value) if isinstance(value, str) else f"{value:g} ms"


def _first(*names: str) -> Callable[[JsonObject], str]:
    """A detail that is simply the first of some fields that holds a text."""
    return lambda fields: next((value for name in names if isinstance(value := fields.get(name), str)), "")


def _tool(fields: JsonObject) -> str:
    return ".".join(name for name in (_text(fields.get("server")), _text(fields.get("tool"))) if name)


def _http(fields: JsonObject) -> str:
    return f"{_text(fields.get('method')) or 'GET'} {_text(fields.get('url'))}"


def _interrupt(fields: JsonObject) -> str:
    approvers = _object(fields.get("approvers"))
    users = approvers.get("users")
    people = [_text(approvers.get("group")), *(_text(user) for user in (users if isinstance(users, list) else []))]
    return ", ".join(name for name in people if name) or _first("message", "prompt", "prompt_ref")(fields)


def _wait(fields: JsonObject) -> str:
    if isinstance(fields.get("signal"), str):
        return f"for signal {fields['signal']}"
    if "until" in fields:
        return f"until {_text(fields['until'])}"
    return _duration(fields.get("duration", fields.get("duration_ms")))


def _keys_set(fields: JsonObject) -> str:
    return ", ".join(_object(fields.get("set")) or _object(fields.get("assignments")))


def _continue_as_new(fields: JsonObject) -> str:
    return "newest version" if fields.get("version") == "newest" else ""


def _parallel(fields: JsonObject) -> str:
    branches, join = fields.get("branches"), fields.get("join", "all")
    count = len(branches) if isinstance(branches, list) else 0
    wanted = {"all": f"all of {count}", "any": f"first of {count}", "n_of_m": f"{fields.get('n')} of {count}"}
    return wanted.get(str(join), "")


def _race(fields: JsonObject) -> str:
    branches = fields.get("branches")
    return f"first of {len(branches)}" if isinstance(branches, list) else ""


def _for_each(fields: JsonObject) -> str:
    at_once = fields.get("concurrency")
    items = f"{_text(fields.get('as')) or 'item'} in {_text(fields.get('items')) or '…'}"
    return f"{items}, {at_once} at a time" if isinstance(at_once, int) and at_once > 1 else items


def _loop(fields: JsonObject) -> str:
    word, rounds = "while" if "while" in fields else "until", fields.get("max_iterations")
    condition = f"{word} {_text(fields.get(word)) or '…'}"
    return f"{condition}, at most {rounds} times" if isinstance(rounds, int) else condition


_DETAILS: Mapping[str, Callable[[JsonObject], str]] = {
    "step": _first("handler", "code_ref"),
    "llm_call": _first("model"),
    "tool_call": _tool,
    "http": _http,
    "agent_delegate": _first("agent_id"),
    "interrupt": _interrupt,
    "wait": _wait,
    "set_state": _keys_set,
    "subworkflow": _first("workflow", "workflow_ref"),
    "emit": _first("signal"),
    "fail": _first("code"),
    "continue_as_new": _continue_as_new,
    "parallel": _parallel,
    "race": _race,
    "for_each": _for_each,
    "loop": _loop,
}
