"""How drawings look: plain attributes that every renderer knows, and a style sheet on top for light and dark.

A renderer without style sheets or CSS variables uses the light colours in the attributes. Where variables are supported
(`@supports`), the style sheet takes over and follows the viewer's setting.

Above it: `svg`. It does not know documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.definitions.node_parts.kind import Category

__all__ = [
    "CAPTION_SIZE",
    "LABEL_SIZE",
    "NAME_SIZE",
    "NOTES_SIZE",
    "TITLE_SIZE",
    "inner_of",
    "inside_label",
    "look",
    "page_rules",
    "shape_of",
    "style",
]

NAME_SIZE, CAPTION_SIZE, NOTES_SIZE, LABEL_SIZE = 14.0, 12.0, 11.0, 11.5
TITLE_SIZE = 17.0
_FONTS = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"

# A figure's fill and border, in light and in dark mode.
_COLOURS: Mapping[Category, tuple[tuple[str, str], tuple[str, str]]] = {
    Category.TERMINAL: (("#e8ecf1", "#64748b"), ("#28303b", "#94a3b8")),
    Category.FAILURE: (("#fdeaea", "#c93b3b"), ("#3d2022", "#f08080")),
    Category.WORK: (("#e9f1fe", "#3b73d1"), ("#1c2a42", "#7fb0ff")),
    Category.MODEL: (("#f1ebfd", "#7c4fd0"), ("#2c2342", "#b79bff")),
    Category.DECISION: (("#fdf3dc", "#b97d10"), ("#3a2f17", "#f0bc55")),
    Category.PERSON: (("#fdebf3", "#c23d80"), ("#3d2031", "#f48fc0")),
    Category.TIME: (("#e3f5f3", "#178478"), ("#16322f", "#5fd0c2")),
    Category.DATA: (("#ebf5e6", "#4c8a2f"), ("#22321b", "#93cf74")),
    Category.GROUP: (("#f6f8fa", "#7d8b9b"), ("#181d24", "#76859a")),
    Category.MISSING: (("#ffffff", "#c93b3b"), ("#20161a", "#f08080")),
}


_LIGHT = {
    "page": "#ffffff",
    "ink": "#1c2530",
    "soft": "#55616f",
    "line": "#7b8794",
    "panel": "#ffffff",
    "error": "#c93b3b",
    "timeout": "#178478",
}
_DARK = {
    "page": "#0f1318",
    "ink": "#e8edf3",
    "soft": "#a3afbd",
    "line": "#7f8c9b",
    "panel": "#12171d",
    "error": "#f08080",
    "timeout": "#5fd0c2",
}
for _category, ((_fill, _edge), (_dark_fill, _dark_edge)) in _COLOURS.items():
    _LIGHT |= {f"{_category}-fill": _fill, f"{_category}-edge": _edge}
    _DARK |= {f"{_category}-fill": _dark_fill, f"{_category}-edge": _dark_edge}


def _text(size: float, colour: str, **more: str) -> dict[str, str]:
    return {"fill": colour, "font-family": _FONTS, "font-size": f"{size:g}", "text-anchor": "middle", **more}


_DASHED_ERROR = {"stroke": "error", "stroke-dasharray": "5 3"}
_DASHED_TIMEOUT = {"stroke": "timeout", "stroke-dasharray": "2 3"}
_LINE = {"fill": "none", "stroke": "line", "stroke-width": "1.5"}
_LABEL_BOX = {"fill": "page", "stroke": "line", "stroke-width": "1", "stroke-opacity": ".55"}
# The attributes of each class, by the names of the colours above; the style sheet is made from the same table.
_LOOKS: Mapping[str, Mapping[str, str]] = {
    "page": {"fill": "page"},
    "title": _text(TITLE_SIZE, "ink", **{"font-weight": "600", "text-anchor": "start"}),
    "version": {"fill": "soft", "font-size": f"{CAPTION_SIZE:g}", "font-weight": "400"},
    "subtitle": _text(CAPTION_SIZE, "soft", **{"text-anchor": "start"}),
    "name": _text(NAME_SIZE, "ink", **{"font-weight": "600"}),
    "caption": _text(CAPTION_SIZE, "soft"),
    "notes": _text(NOTES_SIZE, "soft", **{"font-style": "italic"}),
    "panel-name": _text(CAPTION_SIZE, "soft", **{"font-weight": "600"}),
    "panel": {
        "fill": "panel",
        "stroke": "line",
        "stroke-width": "1",
        "stroke-dasharray": "3 3",
        "stroke-opacity": ".7",
    },
    "line flow": _LINE,
    "line error": {**_LINE, **_DASHED_ERROR},
    "line timeout": {**_LINE, **_DASHED_TIMEOUT},
    "tip flow": {"fill": "line"},
    "tip error": {"fill": "error"},
    "tip timeout": {"fill": "timeout"},
    "dot": {"fill": "ink"},
    "ring": {"fill": "page", "stroke": "ink", "stroke-width": "1.5"},
}
_INSIDE_LABELS: Mapping[str, Mapping[str, str]] = {
    "rect flow": _LABEL_BOX,
    "rect error": {**_LABEL_BOX, "stroke": "error"},
    "rect timeout": {**_LABEL_BOX, "stroke": "timeout"},
    "text flow": _text(LABEL_SIZE, "soft"),
    "text error": _text(LABEL_SIZE, "error"),
    "text timeout": _text(LABEL_SIZE, "timeout"),
}
_STROKE_WIDTH = {Category.GROUP: "1.1"}


def look(classes: str) -> str:
    """The class of an element and its plain attributes."""
    return f'class="{classes}" {_attributes(_LOOKS[classes])}'


def inside_label(tag: str, kind: str) -> str:
    """The plain attributes of the box or the text of a label."""
    return _attributes(_INSIDE_LABELS[f"{tag} {kind}"])


def shape_of(category: Category) -> str:
    """The class of a figure's outline and its plain attributes."""
    return f'class="shape" {_attributes(_shape(category))}'


def inner_of(category: Category) -> str:
    """The class of the line inside an outline and its plain attributes."""
    return f'class="inner" {_attributes(_inner(category))}'


def _shape(category: Category) -> dict[str, str]:
    dashes = {"stroke-dasharray": "5 4"} if category is Category.MISSING else {}
    width = _STROKE_WIDTH.get(category, "1.3")
    return {"fill": f"{category}-fill", "stroke": f"{category}-edge", "stroke-width": width, **dashes}


def _inner(category: Category) -> dict[str, str]:
    return {"fill": "none", "stroke": f"{category}-edge", "stroke-width": "1", "opacity": ".6"}


def _attributes(values: Mapping[str, str]) -> str:
    return " ".join(f'{name}="{_LIGHT.get(value, value)}"' for name, value in values.items())


def style() -> str:
    """The style sheet: only colours, and only for viewers that support variables."""
    return (
        "@supports (fill:var(--ink)){"
        f".penstock-drawing{{{_variables(_LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{.penstock-drawing{{{_variables(_DARK)}}}}}{''.join(_rules())}}}"
    )


def page_rules() -> tuple[str, ...]:
    """The rules for the stylesheet of a page, one for each line: colours follow the colour scheme of the page."""
    colours = "".join(f"--{name}:light-dark({value}, {_DARK[name]});" for name, value in _LIGHT.items())
    return (f".penstock-drawing{{{colours}}}", *_rules())


def _rules() -> Iterator[str]:
    rules = [(f".{classes.replace(' ', '.')}", values) for classes, values in _LOOKS.items()]
    rules += [
        (f".label.{kind} {tag}", values)
        for (tag, kind), values in ((name.split(" "), values) for name, values in _INSIDE_LABELS.items())
    ]
    for category in _COLOURS:
        rules += [(f".{category}>.shape", _shape(category)), (f".{category}>.inner", _inner(category))]
    return (f".penstock-drawing {place}{{{_colours(values)}}}" for place, values in rules)


def _colours(values: Mapping[str, str]) -> str:
    return ";".join(f"{name}:var(--{value})" for name, value in values.items() if value in _LIGHT)


def _variables(values: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in values.items())
