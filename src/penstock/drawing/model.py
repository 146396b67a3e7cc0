"""A workflow as a drawing: figures, panels and arrows with their texts, before layout and output format.

Above it: `mermaid` and `svg`. Below it: `definitions.outline.document` and `definitions.outline.placement`. Every text
is cleaned but not escaped. A broken document gives a drawing too: targets that do not exist become figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.base.text import clean
from penstock.definitions.node_parts.captions import duration_text, text_or_empty
from penstock.definitions.node_parts.kind import Category
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import OutlineNode, Route, is_native, outline_of
from penstock.definitions.outline.placement import Placement, placement_of

__all__ = ["ENTRY", "EXIT", "Arrow", "Figure", "Panel", "Picture", "picture_of"]

# The source or target of an arrow that starts or ends at the border of its panel instead of at a figure.
ENTRY, EXIT = -1, -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One node: its id, a line that says what it does, notes in small print, and a tooltip with everything."""

    key: int
    name: str
    caption: str
    category: Category
    notes: str = ""
    tooltip: str = ""
    panels: tuple[Panel, ...] = ()
    node_id: str | None = None
    """The id as the document has it; None for a figure that stands for no node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """One route between figures of the same panel. `kind` is the route's kind, or `entry` or `branch`."""

    source: int
    target: int
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One body: its figures in document order, the arrows between them, and the first figure."""

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


def picture_of(document: JsonObject) -> Picture:
    """Read the drawing of a document in either format. Never fails."""
    about = document if is_native(document) else object_or_empty(document.get("document"))
    painter = _Painter(placement=placement_of(outline_of(document)))
    return Picture(
        name=text_or_empty(about.get("name")),
        version=text_or_empty(about.get("version")),
        title=text_or_empty(about.get("title")),
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
        """Whether a body is part of the drawing; contradictory ids can make bodies contain themselves."""
        around = list(self.placement.enclosing(body))
        return around[-1] == "" and all(self._belongs_to_owner(name) for name in around[:-1])

    def _belongs_to_owner(self, body: str) -> bool:
        owner = self.placement.nodes.get(self.placement.outline.bodies[body].owner or "")
        return owner is not None and body in owner.bodies and self.placement.holds_nodes(body)

    def panels(self, node: OutlineNode) -> Iterator[Panel]:
        """The bodies of a node; of two nodes with the same id, the first one has them."""
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
        """Draw branches whose nodes are beside the fork as arrows with the branch's name."""
        for body_id in node.bodies:
            body = self.painter.placement.outline.bodies.get(body_id)
            if body is not None and body.entry is not None and not self.painter.placement.holds_nodes(body_id):
                label = clean(body.name)
                self.arrows.append(Arrow(source=key, target=self._target(body.entry), kind="branch", label=label))

    def add_entry(self, entry: str | None) -> None:
        if entry is None:
            return
        self._entry = self._target(entry)
        # A start node already shows that the run begins there.
        if not any(figure.key == self._entry and figure.category is Category.TERMINAL for figure in self.figures):
            self.arrows.insert(0, Arrow(source=ENTRY, target=self._entry, kind="entry"))

    def add_error_routes(self, routes: tuple[Route, ...], raw: JsonValue) -> None:
        if not routes:
            return
        figure = Figure(
            key=self.painter.new_key(),
            name="any error",
            caption="",
            category=Category.FAILURE,
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
            self.figures.append(Figure(key=key, name=clean(name), caption=caption, category=Category.MISSING))
        return self._missing[name]

    def finished(self, name: str) -> Panel:
        return Panel(name=name, entry=self._entry, figures=tuple(self.figures), arrows=tuple(self.arrows))


def _figure(key: int, node: OutlineNode, panels: tuple[Panel, ...]) -> Figure:
    node_type = clean(node.type)
    kind = kind_named(node.type)
    detail = clean(kind.caption(node.fields)) if kind is not None and kind.caption is not None else ""
    about = (text_or_empty(node.fields.get("title")), text_or_empty(node.fields.get("description")))
    caption = f"{node_type} · {detail}" if detail else node_type
    return Figure(
        key=key,
        name=clean(node.id),
        caption="" if caption == clean(node.id) else caption,
        notes=" · ".join(_notes(node.fields)),
        category=Category.MISSING if kind is None else kind.category,
        tooltip="\n".join(line for line in (clean(node.id), caption, *about) if line),
        panels=panels,
        node_id=node.id,
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
        yield f"limit {duration_text(fields['timeout'])}"


def _label(node: OutlineNode, route: Route) -> str:
    if route.kind == "error":
        return _codes(node.fields.get("on_error"), route)
    if route.kind == "timeout":
        timeout = node.fields.get("timeout")
        return f"after {duration_text(timeout)}" if isinstance(timeout, str | int | float) else "timeout"
    return clean(route.label)


def _codes(raw: JsonValue, route: Route) -> str:
    """The error codes of a route; its path tells which of several routes it is."""
    index = route.path.split("/")[-2]
    chosen = raw[int(index)] if isinstance(raw, list) and index.isdigit() and int(index) < len(raw) else raw
    fields = object_or_empty(chosen)
    codes = fields.get("codes")
    named = [text_or_empty(code) for code in (codes if isinstance(codes, list) else [fields.get("code")])]
    return ", ".join(code for code in named if code) or "any error"
