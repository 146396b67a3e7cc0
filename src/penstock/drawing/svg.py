"""Drawings of workflows as SVG: standalone files, light or dark by the viewer's setting, or parts of a page.

A drawing for a page has no styles of its own, because the page's content security policy would refuse them:
`style.page_rules` is for its stylesheet. Its nodes are links to `#node-ID`, and may carry a state.

Above it: `penstock workflow draw`, `workflow.draw`. Below it: `model` says what is drawn, `layout` where. Every text
from a document goes through `escape`, and ids in links are quoted; nothing else of a document reaches the markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote
from xml.sax.saxutils import escape as escape_markup

from penstock.base.json import JsonObject
from penstock.base.text import clean, fit, width_of
from penstock.definitions.node_parts.kind import Category
from penstock.drawing.layers import Box, Link
from penstock.drawing.layout import Arrangement, Strand, arrange
from penstock.drawing.model import ENTRY, EXIT, Arrow, Figure, Panel, Picture, picture_of
from penstock.drawing.style import (
    CAPTION_SIZE,
    LABEL_SIZE,
    NAME_SIZE,
    NOTES_SIZE,
    TITLE_SIZE,
    inner_of,
    inside_label,
    look,
    shape_of,
    style,
)

__all__ = ["to_page_svg", "to_svg"]

_LINE_HEIGHTS = {"name": 19.0, "caption": 16.0, "notes": 15.0}
_TEXT_WIDTH_MIN, _TEXT_WIDTH_MAX = 76.0, 244.0
# A box with bodies is wide anyway, so its head may be wide too.
_HEAD_WIDTH_MAX = 360.0
_SIDE_PADDING, _TOP_PADDING = 18.0, 9.0
_POINT_PADDING = 16.0  # extra room beside the text of shapes with pointed or round sides
_LABEL_WIDTH_MAX, _LABEL_HEIGHT, _LABEL_PADDING = 200.0, 19.0, 7.0
_PANEL_PADDING, _PANEL_GAP, _PANEL_WIDTH_MIN = 18.0, 16.0, 96.0
_PANEL_NAME_HEIGHT, _GROUP_PADDING = 22.0, 14.0
_MARGIN, _TITLE_HEIGHT = 24.0, 38.0
_NAME_WIDTH_MAX, _VERSION_WIDTH_MAX = 420.0, 120.0
_DOT_RADIUS = 7.0
_ARROW_LENGTH, _ARROW_WIDTH = 8.0, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Medium:
    """Where a drawing is shown."""

    in_page: bool = False
    states: Mapping[str, str] = field(default_factory=dict)
    """States of nodes by their ids, for pages; each is a class of the stylesheet."""

    def opening(self, figure: Figure) -> str:
        """The tag that opens a figure."""
        if not self.in_page or figure.node_id is None:
            return f'<g class="figure {figure.category}">'
        state = self.states.get(figure.node_id, "")
        shown = f" state-{escape(state)}" if state else ""
        label = escape(", ".join(part for part in (figure.name, figure.caption, state) if part))
        place = f"#node-{quote(figure.node_id, safe='')}"
        return f'<a href="{place}" class="figure {figure.category}{shown}" aria-label="{label}">'

    def closing(self, figure: Figure) -> str:
        """The tag that closes a figure."""
        return "</a>" if self.in_page and figure.node_id is not None else "</g>"


def to_svg(document: JsonObject) -> str:
    """Draw a document in either format; a broken one as far as it can be understood."""
    picture = picture_of(document)
    root = _lay_out(picture.root, _Medium(), is_root=True)
    heading = list(_heading(picture))
    heading_height = _TITLE_HEIGHT if heading else 0.0
    drawing = root.arrangement
    width = max(drawing.width, _heading_width(picture)) + 2 * _MARGIN
    height = drawing.height + heading_height + 2 * _MARGIN
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock-drawing" role="img" aria-label="{_label(picture)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{style()}</style>",
        f'<rect {look("page")} width="{width:.0f}" height="{height:.0f}"/>',
        *heading,
        *_moved(
            root.markup(drawing.height, is_root=True),
            ((width - drawing.width) / 2, _MARGIN + heading_height),
        ),
        "</svg>",
        "",
    )
    return "\n".join(lines)


def to_page_svg(document: JsonObject, states: Mapping[str, str] | None = None) -> str:
    """Draw a document for a page that has the rules of `style.page_rules`: its nodes are links to `#node-ID`."""
    picture = picture_of(document)
    root = _lay_out(picture.root, _Medium(in_page=True, states=states or {}), is_root=True)
    drawing = root.arrangement
    width, height = drawing.width + _MARGIN, drawing.height + _MARGIN
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock-drawing" role="group" aria-label="{_label(picture)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        *_moved(root.markup(drawing.height, is_root=True), (_MARGIN / 2, _MARGIN / 2)),
        "</svg>",
        "",
    )
    return "\n".join(lines)


def _label(picture: Picture) -> str:
    return escape(" ".join(part for part in ("Workflow", picture.name, picture.version) if part))


def escape(text: str) -> str:
    """Escape text from a document for XML text or an attribute value."""
    return escape_markup(clean(text), {'"': "&quot;", "'": "&#39;"})


def _heading(picture: Picture) -> Iterator[str]:
    if not picture.name:
        return
    name = escape(fit(picture.name, _NAME_WIDTH_MAX, TITLE_SIZE, bold=True))
    version = escape(fit(picture.version, _VERSION_WIDTH_MAX, CAPTION_SIZE))
    tail = f" <tspan {look('version')}>{version}</tspan>" if version else ""
    yield f'<text {look("title")} x="{_MARGIN:.0f}" y="{_MARGIN + 12:.0f}">{name}{tail}</text>'
    if picture.title:
        title = escape(fit(picture.title, _NAME_WIDTH_MAX + _VERSION_WIDTH_MAX, CAPTION_SIZE))
        yield f'<text {look("subtitle")} x="{_MARGIN:.0f}" y="{_MARGIN + 30:.0f}">{title}</text>'


def _heading_width(picture: Picture) -> float:
    name = min(width_of(picture.name, TITLE_SIZE, bold=True), _NAME_WIDTH_MAX)
    version = min(width_of(picture.version, CAPTION_SIZE), _VERSION_WIDTH_MAX)
    title = min(width_of(picture.title, CAPTION_SIZE), _NAME_WIDTH_MAX + _VERSION_WIDTH_MAX)
    return max(name + version + 8, title)


# Panels


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A figure with its size and its markup, drawn at the origin."""

    width: float
    height: float
    markup: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaidOut:
    """A panel whose figures and arrows have been placed."""

    arrangement: Arrangement
    arrows: tuple[Arrow, ...]
    figures: Mapping[int, _Drawn]

    def markup(self, height: float, *, is_root: bool) -> Iterator[str]:
        """The inside of the panel; arrows that leave it extend down to `height`."""
        yield from _strands(self, height)
        if is_root:
            yield from _dots(self.arrangement)
        for key, figure in self.figures.items():
            yield from _moved(figure.markup, self.arrangement.boxes[key])
        yield from _labels(self)


def _lay_out(panel: Panel, medium: _Medium, *, is_root: bool) -> _LaidOut:
    figures = {figure.key: _draw_figure(figure, medium) for figure in panel.figures}
    border = _DOT_RADIUS * 2 if is_root else 0.0
    boxes = [Box(key=key, width=figure.width, height=figure.height) for key, figure in figures.items()]
    boxes.sort(key=lambda box: box.key != panel.entry)
    if any(arrow.source == ENTRY for arrow in panel.arrows):
        boxes.insert(0, Box(key=ENTRY, width=border, height=border))
    leaves = any(arrow.target == EXIT for arrow in panel.arrows)
    if leaves:
        boxes.append(Box(key=EXIT, width=border, height=border))
    arrangement = arrange(boxes, [_link(arrow) for arrow in panel.arrows], EXIT if leaves else None)
    return _LaidOut(arrangement=arrangement, arrows=panel.arrows, figures=figures)


def _link(arrow: Arrow) -> Link:
    label = _fitted_label(arrow)
    return Link(
        source=arrow.source,
        target=arrow.target,
        bundle=_look(arrow),
        label_width=width_of(label, LABEL_SIZE) + 2 * _LABEL_PADDING if label else 0.0,
        label_height=_LABEL_HEIGHT if label else 0.0,
        is_main=arrow.kind in ("next", "edge", "entry", "branch"),
    )


def _look(arrow: Arrow) -> str:
    return {"error": "error", "timeout": "timeout"}.get(arrow.kind, "flow")


def _fitted_label(arrow: Arrow) -> str:
    return fit(arrow.label, _LABEL_WIDTH_MAX, LABEL_SIZE)


def _strands(panel: _LaidOut, height: float) -> Iterator[str]:
    extra = height - panel.arrangement.height
    for strand in panel.arrangement.strands:
        arrow = panel.arrows[strand.link]
        kind = _look(arrow)
        more = f"v{_number(extra)}" if strand.tip is not None and arrow.target == EXIT and extra > 0 else ""
        yield f'<path {look(f"line {kind}")} d="{_path(strand)}{more}"/>'
        if strand.tip is not None:
            x, y = strand.tip
            half = _ARROW_WIDTH / 2
            yield (
                f'<path {look(f"tip {kind}")} d="M{_number(x)} {_number(y + (extra if more else 0))}'
                f'l{_number(-half)} {_number(-_ARROW_LENGTH)}h{_number(_ARROW_WIDTH)}z"/>'
            )


def _path(strand: Strand) -> str:
    return "".join(name + " ".join(_number(value) for value in values) for name, values in strand.commands)


def _dots(arrangement: Arrangement) -> Iterator[str]:
    """Dots where a run begins and ends, if no node shows it; inside a panel its border does."""
    for key, radius, title in ((ENTRY, _DOT_RADIUS, "The run begins here"), (EXIT, 4.0, "The run ends here")):
        if key in arrangement.boxes:
            x, y = (_number(value + _DOT_RADIUS) for value in arrangement.boxes[key])
            ring = f'<circle {look("ring")} cx="{x}" cy="{y}" r="{_DOT_RADIUS:.0f}"/>' if key == EXIT else ""
            yield f'<g>{ring}<circle {look("dot")} cx="{x}" cy="{y}" r="{radius:.0f}"/><title>{title}</title></g>'


def _labels(panel: _LaidOut) -> Iterator[str]:
    for index, (x, y) in panel.arrangement.labels.items():
        arrow = panel.arrows[index]
        text = _fitted_label(arrow)
        width, kind = width_of(text, LABEL_SIZE) + 2 * _LABEL_PADDING, _look(arrow)
        yield (
            f'<g class="label {kind}"><title>{escape(arrow.label)}</title>'
            f'<rect {inside_label("rect", kind)} x="{_number(x - width / 2)}" '
            f'y="{_number(y - _LABEL_HEIGHT / 2)}" width="{_number(width)}" '
            f'height="{_LABEL_HEIGHT:.0f}" rx="{_LABEL_HEIGHT / 2:.1f}"/>'
            f'<text {inside_label("text", kind)} x="{_number(x)}" y="{_number(y + 4)}">{escape(text)}</text></g>'
        )


def _moved(markup: Iterable[str], place: tuple[float, float]) -> Iterator[str]:
    yield f'<g transform="translate({_number(place[0])} {_number(place[1])})">'
    yield from markup
    yield "</g>"


# Figures


def _draw_figure(figure: Figure, medium: _Medium) -> _Drawn:
    return _draw_group(figure, medium) if figure.panels else _draw_leaf(figure, medium)


def _draw_leaf(figure: Figure, medium: _Medium) -> _Drawn:
    lines = _lines(figure)
    is_pointed = figure.category in (Category.DECISION, Category.TERMINAL, Category.FAILURE, Category.TIME)
    padding = _SIDE_PADDING + (_POINT_PADDING if is_pointed else 0)
    width = max(_TEXT_WIDTH_MIN, _text_width(lines)) + 2 * padding
    height = sum(_LINE_HEIGHTS[name] for name, _, _ in lines) + 2 * _TOP_PADDING
    markup = (
        medium.opening(figure),
        *_tooltip(figure),
        _outline(figure, width, height),
        *_texts(lines, width / 2, _TOP_PADDING),
        medium.closing(figure),
    )
    return _Drawn(width=width, height=height, markup=markup)


def _lines(figure: Figure, width_max: float = _TEXT_WIDTH_MAX) -> list[tuple[str, str, float]]:
    lines = [("name", figure.name, NAME_SIZE), ("caption", figure.caption, CAPTION_SIZE)]
    lines.append(("notes", figure.notes, NOTES_SIZE))
    return [
        (name, fit(text, width_max, size, bold=name == "name"), size)
        for name, text, size in lines
        if text or name == "name"
    ]


def _text_width(lines: list[tuple[str, str, float]]) -> float:
    return max(width_of(text, size, bold=name == "name") for name, text, size in lines)


def _texts(lines: list[tuple[str, str, float]], middle: float, y: float) -> Iterator[str]:
    for name, text, _ in lines:
        y += _LINE_HEIGHTS[name]
        yield f'<text {look(name)} x="{_number(middle)}" y="{_number(y - 5)}">{escape(text)}</text>'


def _tooltip(figure: Figure) -> Iterator[str]:
    if figure.tooltip:
        yield f"<title>{'&#10;'.join(escape(line) for line in figure.tooltip.splitlines())}</title>"


def _outline(figure: Figure, width: float, height: float) -> str:
    w, h = _number(width), _number(height)
    shape, inner = shape_of(figure.category), inner_of(figure.category)
    match figure.category:
        case Category.TERMINAL | Category.FAILURE:
            return f'<rect {shape} width="{w}" height="{h}" rx="{_number(height / 2)}"/>'
        case Category.DECISION:
            point, middle = 18.0, height / 2
            return (
                f'<path {shape} d="M{_number(point)} 0H{_number(width - point)}L{w} {_number(middle)}'
                f'L{_number(width - point)} {h}H{_number(point)}L0 {_number(middle)}z"/>'
            )
        case Category.TIME:
            return (
                f'<rect {shape} width="{w}" height="{h}" rx="{_number(height / 2)}"/>'
                f'<rect {inner} x="4" y="4" width="{_number(width - 8)}" height="{_number(height - 8)}" '
                f'rx="{_number(height / 2 - 4)}"/>'
            )
        case Category.DATA:
            return (
                f'<rect {shape} width="{w}" height="{h}" rx="3"/>'
                f'<path {inner} d="M7 0V{h}M{_number(width - 7)} 0V{h}"/>'
            )
        case Category.PERSON:
            return f'<path {shape} d="M14 0H{w}L{_number(width - 14)} {h}H0z"/>'
        case Category.WORK | Category.MODEL | Category.GROUP | Category.MISSING:
            return f'<rect {shape} width="{w}" height="{h}" rx="8"/>'


def _draw_group(figure: Figure, medium: _Medium) -> _Drawn:
    """Draw a node with bodies: a box with a head and its panels side by side."""
    panels = [(panel, _lay_out(panel, medium, is_root=False)) for panel in figure.panels]
    widths = [max(_panel_width(panel), inside.arrangement.width + 2 * _PANEL_PADDING) for panel, inside in panels]
    panels_width = sum(widths) + _PANEL_GAP * (len(widths) - 1)
    lines = _lines(figure, max(panels_width, _HEAD_WIDTH_MAX))
    content_width = max(panels_width, _text_width(lines))
    name_height = _PANEL_NAME_HEIGHT if any(panel.name for panel, _ in panels) else 0.0
    panel_height = max(inside.arrangement.height for _, inside in panels) + name_height
    width = content_width + 2 * _GROUP_PADDING
    head_height = sum(_LINE_HEIGHTS[name] for name, _, _ in lines) + _TOP_PADDING + 6
    height = head_height + panel_height + _GROUP_PADDING
    markup = [medium.opening(figure), *_tooltip(figure), _outline(figure, width, height)]
    markup.extend((*_texts(lines, width / 2, _TOP_PADDING - 2), medium.closing(figure)))
    x = _GROUP_PADDING
    for (panel, inside), natural_width in zip(panels, widths, strict=True):
        size = (natural_width + (content_width - panels_width) / len(panels), panel_height)
        markup.extend(_moved(_draw_panel(panel, inside, size, name_height), (x, head_height)))
        x += size[0] + _PANEL_GAP
    return _Drawn(width=width, height=height, markup=tuple(markup))


def _panel_width(panel: Panel) -> float:
    return max(_PANEL_WIDTH_MIN, min(width_of(panel.name, CAPTION_SIZE, bold=True), _TEXT_WIDTH_MAX) + 24)


def _draw_panel(panel: Panel, inside: _LaidOut, size: tuple[float, float], name_height: float) -> Iterator[str]:
    width, height = size
    yield f'<rect {look("panel")} width="{_number(width)}" height="{_number(height)}" rx="6"/>'
    if panel.name:
        name = escape(fit(panel.name, _TEXT_WIDTH_MAX, CAPTION_SIZE, bold=True))
        title = f"<title>{escape(panel.name)}</title>"
        yield f'<text {look("panel-name")} x="{_number(width / 2)}" y="15">{title}{name}</text>'
    place = ((width - inside.arrangement.width) / 2, name_height)
    yield from _moved(inside.markup(height - name_height, is_root=False), place)


# Looks


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
