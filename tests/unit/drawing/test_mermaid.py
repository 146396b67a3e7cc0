"""Drawings show every node and route, keep clear of each other, and let no text of a document become markup."""

import re
from collections.abc import Iterator
from typing import cast
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean, fit, width_of
from penstock.definitions.node_parts.kind import Category
from penstock.definitions.outline.document import outline_of
from penstock.drawing.layers import Box, Link
from penstock.drawing.layout import arrange
from penstock.drawing.mermaid import to_mermaid
from penstock.drawing.model import EXIT, Figure, Panel, picture_of
from penstock.drawing.svg import to_svg
from tests.unit.definitions.documents import (
    everything_native,
    everything_published,
    minimal_native,
    minimal_published,
    mutations,
)

SVG = "{http://www.w3.org/2000/svg}"
# The only elements and attributes a drawing consists of; none of them can run or load anything.
ELEMENTS = {"svg", "style", "g", "rect", "path", "circle", "text", "tspan", "title"}
ATTRIBUTES = {"class", "role", "aria-label", "width", "height", "viewBox", "transform"}
ATTRIBUTES |= {"d", "x", "y", "cx", "cy", "r", "rx"}
LOOKS = {"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity"}
LOOKS |= {"font-family", "font-size", "font-weight", "font-style", "text-anchor"}


def elements(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter())


def texts(svg: str) -> str:
    return "\n".join(ElementTree.fromstring(svg).itertext())


def figures(panel: Panel) -> Iterator[Figure]:
    for figure in panel.figures:
        yield figure
        for inner in figure.panels:
            yield from figures(inner)


def panels(panel: Panel) -> Iterator[Panel]:
    yield panel
    for figure in panel.figures:
        for inner in figure.panels:
            yield from panels(inner)


def step(name: str, **fields: JsonValue) -> JsonObject:
    return {"id": name, "type": "step", "handler": "h", **fields}


# What is in the picture


@pytest.mark.parametrize("document", [everything_native(), everything_published()], ids=["native", "published"])
def test_every_node_and_every_route_is_in_the_picture(document: JsonObject) -> None:
    outline, picture = outline_of(document), picture_of(document)
    drawn = [figure.name for figure in figures(picture.root)]
    assert all(node.id in drawn for node in outline.nodes)
    arrows = [arrow for panel in panels(picture.root) for arrow in panel.arrows]
    routes = sum(len(node.routes) for node in outline.nodes) + len(outline.error_routes)
    assert len([arrow for arrow in arrows if arrow.kind not in ("entry", "branch")]) == routes


@pytest.mark.parametrize("document", [everything_native(), everything_published()], ids=["native", "published"])
def test_a_broken_document_is_drawn_as_far_as_it_goes(document: JsonObject) -> None:
    for mutant in mutations(document, count=150, seed=7):
        keys = [figure.key for figure in figures(picture_of(mutant).root)]
        assert len(set(keys)) == len(keys)
        assert set(range(len(outline_of(mutant).nodes))) <= set(keys)
        ElementTree.fromstring(to_svg(mutant))
        to_mermaid(mutant)


def test_branches_by_entry_are_drawn_like_branches_with_nodes() -> None:
    fork: JsonObject = {
        "id": "fork",
        "type": "parallel",
        "config": {"join": "all", "branches": [{"name": "a", "entry": "left"}, {"name": "b", "entry": "right"}]},
    }
    names = [("__start__", "begin"), ("begin", "fork"), ("fork", "finish"), ("left", "finish"), ("right", "finish")]
    edges: list[JsonValue] = [{"source": source, "target": target} for source, target in names]
    left: JsonObject = {"id": "left", "type": "wait", "config": {"kind": "signal", "signal": "s"}}
    document = minimal_published(fork, left, {**left, "id": "right"}, edges=edges)
    group = next(figure for figure in picture_of(document).root.figures if figure.name == "fork")
    assert [(panel.name, [figure.name for figure in panel.figures]) for panel in group.panels] == [
        ("a", ["left"]),
        ("b", ["right"]),
    ]
    assert all(arrow.target == EXIT for panel in group.panels for arrow in panel.arrows if arrow.kind == "edge")


def test_branches_that_share_a_node_stay_beside_their_fork() -> None:
    branches: list[JsonValue] = [{"name": "a", "entry": "left"}, {"name": "b", "entry": "right"}]
    document = minimal_native(
        {"id": "fork", "type": "parallel", "branches": branches, "next": "done"},
        step("left", next="both"),
        step("right", next="both"),
        step("both", next="done"),
        {"id": "done", "type": "end"},
    )
    root = picture_of(document).root
    assert [figure.name for figure in root.figures] == ["fork", "left", "right", "both", "done"]
    assert [arrow.label for arrow in root.arrows if arrow.kind == "branch"] == ["a", "b"]


def test_a_target_that_does_not_exist_is_shown_as_missing() -> None:
    document = minimal_native(step("a", next="nowhere"), {"id": "done", "type": "end"})
    [missing] = [figure for figure in picture_of(document).root.figures if figure.category is Category.MISSING]
    assert (missing.name, missing.caption) == ("nowhere", "unknown node")


def test_arrows_carry_conditions_codes_and_times() -> None:
    document = minimal_native(
        step(
            "a", next={"when": ".x > 1", "then": "b"}, on_error=[{"codes": ["A", "B"], "next": "b"}, {"next": "done"}]
        ),
        {"id": "b", "type": "interrupt", "message": "?", "timeout": "24h", "on_timeout": "done"},
        {"id": "done", "type": "end"},
        on_error={"code": "C", "next": "done"},
    )
    labels = [(arrow.kind, arrow.label) for arrow in picture_of(document).root.arrows if arrow.label]
    assert labels == [
        ("then", ".x > 1"),
        ("else", "otherwise"),
        ("error", "A, B"),
        ("error", "any error"),
        ("timeout", "after 24h"),
        ("error", "C"),
    ]


def test_ids_that_contradict_each_other_do_not_swallow_nodes() -> None:
    inner: JsonObject = {"id": "p/q", "type": "loop", "nodes": [step("deep")]}
    twice: JsonObject = {"id": "x", "type": "loop", "nodes": [{"id": "x", "type": "loop", "nodes": [step("y")]}]}
    document = minimal_native({"id": "p", "type": "parallel", "branches": [{"name": "q", "nodes": [inner]}]}, twice)
    drawn = sorted(figure.name for figure in figures(picture_of(document).root))
    assert drawn == sorted(node.id for node in outline_of(document).nodes)


# SVG


def test_an_svg_shows_names_captions_labels_and_the_title() -> None:
    document = minimal_native(
        {"id": "ask", "type": "interrupt", "message": "?", "approvers": {"group": "leads"}},
        step("pay", retry={"max_attempts": 3}, on_error={"code": "LATE", "next": "done"}),
        {"id": "done", "type": "end"},
        title="A small one",
        version="2.0.0",
    )
    shown = texts(to_svg(document))
    for text in ("small", "2.0.0", "A small one", "ask", "interrupt · leads", "pay", "3 tries", "LATE", "done"):
        assert text in shown


def test_a_long_label_is_cut_and_told_in_full_by_its_tooltip() -> None:
    condition = ".input.amount > 100 and .input.currency == 'EUR' and .customer.since < '2020-01-01'"
    document = minimal_native(step("a", next={"when": condition, "then": "b"}), step("b"))
    label = next(element for element in elements(to_svg(document)) if element.get("class") == "label flow")
    assert label.findtext(f"{SVG}title") == condition
    shown = label.findtext(f"{SVG}text") or ""
    assert shown.endswith("…")
    assert len(shown) < len(condition)


def test_an_svg_loads_nothing_and_follows_the_viewers_colours() -> None:
    svg = to_svg(everything_native())
    assert "prefers-color-scheme:dark" in svg
    assert not re.search(
        r"url\(|@import|href|<script|<foreignObject|https?://(?!www\.w3\.org/2000/svg)", svg.split("</style>")[0]
    )
    assert {element.tag.removeprefix(SVG) for element in elements(svg)} <= ELEMENTS
    assert {name for element in elements(svg) for name in element.attrib} <= ATTRIBUTES | LOOKS


def test_a_renderer_without_style_sheets_sees_the_light_colours() -> None:
    svg = to_svg(everything_native())
    drawn = [
        element for element in elements(svg) if element.tag.removeprefix(SVG) in ("rect", "path", "circle", "text")
    ]
    assert len(drawn) > 20
    for element in drawn:
        assert re.fullmatch(r"#[0-9a-f]{6}|none", element.get("fill", "")), ElementTree.tostring(element)
        assert "var(" not in "".join(element.attrib.values())
    # What a viewer without variables does not read at all cannot be misread.
    assert re.search(r"<style>@supports \(fill:var\(--ink\)\)\{.*\}</style>", svg)


HOSTILE = [
    "</text><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "]]><x/>",
    "&lt;&#x0;&nbsp;",
    "\x00\x08\x1b[31m\ufffe\ud800",
    "\u202egnp.exe",
    "%%{init: {'theme': 'dark'}}%%",
    'a"] --> b["',
    "end",
    "`**bold**`",
    "style x:#quot;",
    "-->|label|",
    "日本語のノード",
    "🙂" * 50,
    "x" * 5000,
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))


def hostile_document(node_id: str, label: str, branch: str) -> JsonObject:
    inner: JsonObject = {"id": f"{node_id}!", "type": label, "next": branch}
    return {
        "penstock": "v1",
        "name": label,
        "version": branch,
        "title": node_id,
        "on_error": {"code": label, "next": node_id},
        "nodes": [
            step(node_id, handler=label, title=branch, next={"when": label, "then": f"{node_id}?", "else": branch}),
            {"id": f"{node_id}?", "type": "parallel", "branches": [{"name": branch, "nodes": [inner]}]},
            {"id": label, "type": "switch", "cases": [{"when": branch, "next": node_id}], "default": "$exit"},
            {"id": branch, "type": "for_each", "items": label, "as": node_id, "nodes": [step(label)]},
        ],
    }


@given(TEXTS, TEXTS, TEXTS)
def test_no_text_of_a_document_becomes_markup(node_id: str, label: str, branch: str) -> None:
    svg = to_svg(hostile_document(node_id, label, branch))
    svg.encode("utf-8")
    assert {element.tag.removeprefix(SVG) for element in elements(svg)} <= ELEMENTS
    assert {name for element in elements(svg) for name in element.attrib} <= ATTRIBUTES | LOOKS
    style = next(element for element in elements(svg) if element.tag == f"{SVG}style")
    assert style.text == next(e for e in elements(to_svg({})) if e.tag == f"{SVG}style").text


MERMAID_LINES = [
    r"flowchart TD",
    r"accTitle: (?:[^\x00-\x7f]|[\w .,/()=!+*'-])*",
    r"direction TB",
    r"end",
    r'subgraph \w+\["LABEL"\]',
    r'\w+(\(\[|\[\[|\[\(|\[/|\{\{|\(\(|\[|\(|>)"LABEL"(\]\)|\]\]|\)\]|/\]|\}\}|\)\)|\]|\))',
    r'\w+ (-->|-\.->)(\|"LABEL"\|)? \w+',
    r"classDef \w+ [\w:,# -]+",
    r"class [\w,]+ \w+",
    r"linkStyle [\d,]+ [\w:,#]+",
]
LABEL = r"(?:<br/>|#\d+;|[^\x00-\x7f]|[\w .,/()=!+*'-])*"
MERMAID = re.compile("|".join(f"(?:{line.replace('LABEL', LABEL)})" for line in MERMAID_LINES))


@given(TEXTS, TEXTS, TEXTS)
def test_every_line_of_a_flowchart_is_one_of_ours(node_id: str, label: str, branch: str) -> None:
    mermaid = to_mermaid(hostile_document(node_id, label, branch))
    mermaid.encode("utf-8")
    strange = [line for line in mermaid.splitlines() if not MERMAID.fullmatch(line.strip())]
    assert strange == []


@pytest.mark.parametrize("document", [everything_native(), everything_published()], ids=["native", "published"])
def test_a_flowchart_has_one_line_per_route(document: JsonObject) -> None:
    arrows = [line for line in to_mermaid(document).splitlines() if re.search(r" (-->|-\.->)", line)]
    expected = [arrow for panel in panels(picture_of(document).root) for arrow in panel.arrows]
    assert len(arrows) == len(expected)


NODE_NAMES = st.sampled_from("abcdef")
NODES = st.lists(st.tuples(NODE_NAMES, st.lists(st.one_of(NODE_NAMES, st.just("$exit")), max_size=3)), max_size=6)


@given(NODES)
def test_a_flowchart_has_as_many_arrows_as_the_outline_has_routes(nodes: list[tuple[str, list[str]]]) -> None:
    listed: list[JsonValue] = [
        {"id": name, "type": "switch", "cases": [{"when": ".x", "next": target} for target in targets]}
        for name, targets in nodes
    ]
    document = cast(JsonObject, {"penstock": "v1", "nodes": listed})
    arrows = [line for line in to_mermaid(document).splitlines() if "-->" in line and "_entry" not in line]
    assert len(arrows) == sum(len(node.routes) for node in outline_of(document).nodes)


def test_a_flowchart_is_short_and_readable() -> None:
    document = minimal_native(
        {"id": "route", "type": "switch", "cases": [{"when": '.kind == "a"', "next": "work"}], "default": "done"},
        {"id": "work", "type": "loop", "while": ".more", "max_iterations": 3, "nodes": [step("inside")]},
        {"id": "done", "type": "end"},
    )
    lines = to_mermaid(document).splitlines()
    assert lines[:17] == [
        "flowchart TD",
        "  accTitle: Workflow small",
        '  root_entry((" "))',
        '  n0{{"route<br/>switch"}}',
        '  subgraph n1["work · loop · while .more, at most 3 times"]',
        "    direction TB",
        '    n1_0_entry((" "))',
        '    n1_0_exit((" "))',
        '    n2["inside<br/>step · h"]',
        "    n1_0_entry --> n2",
        "    n2 --> n1_0_exit",
        "  end",
        '  n3(["done<br/>end"])',
        "  root_entry --> n0",
        '  n0 -->|".kind == #34;a#34;"| n1',
        '  n0 -->|"otherwise"| n3',
        "  n1 --> n3",
    ]


# Layout


BOXES = st.lists(
    st.tuples(st.floats(0, 400, allow_nan=False), st.floats(0, 300, allow_nan=False)), min_size=1, max_size=12
)


@st.composite
def drawings(draw: st.DrawFn) -> tuple[list[Box], list[Link]]:
    sizes = draw(BOXES)
    boxes = [Box(key=key, width=width, height=height) for key, (width, height) in enumerate(sizes)]
    keys = st.integers(0, len(boxes) - 1)
    label = st.sampled_from([0.0, 0.0, 60.0, 180.0])
    made = draw(st.lists(st.tuples(keys, keys, st.sampled_from(["flow", "error"]), label, st.booleans()), max_size=20))
    links = [
        Link(
            source=source,
            target=target,
            bundle=bundle,
            label_width=width,
            label_height=18.0 if width else 0,
            is_main=main,
        )
        for source, target, bundle, width, main in made
    ]
    return boxes, links


def rectangles(boxes: list[Box], links: list[Link]) -> Iterator[tuple[float, float, float, float]]:
    arrangement = arrange(boxes, links)
    for box in boxes:
        x, y = arrangement.boxes[box.key]
        yield x, y, x + box.width, y + box.height
    for index, (x, y) in arrangement.labels.items():
        link = links[index]
        yield (
            x - link.label_width / 2,
            y - link.label_height / 2,
            x + link.label_width / 2,
            y + link.label_height / 2,
        )


@settings(max_examples=2 * settings().max_examples)
@given(drawings())
def test_boxes_and_labels_never_overlap_and_stay_on_the_page(drawing: tuple[list[Box], list[Link]]) -> None:
    boxes, links = drawing
    arrangement = arrange(boxes, links)
    assert len(arrangement.labels) == sum(link.label_width > 0 for link in links)
    placed = [rectangle for rectangle in rectangles(boxes, links) if rectangle[2] > rectangle[0]]
    slack = 0.01
    for index, (left, top, right, bottom) in enumerate(placed):
        assert left >= -slack
        assert top >= -slack
        assert right <= arrangement.width + slack
        assert bottom <= arrangement.height + slack
        for other_left, other_top, other_right, other_bottom in placed[index + 1 :]:
            apart_x = right <= other_left + slack or other_right <= left + slack
            apart_y = bottom <= other_top + slack or other_bottom <= top + slack
            assert apart_x or apart_y


@given(drawings())
def test_every_target_gets_an_arrow_head_and_every_path_stays_on_the_page(
    drawing: tuple[list[Box], list[Link]],
) -> None:
    boxes, links = drawing
    arrangement = arrange(boxes, links)
    tips = {strand.tip for strand in arrangement.strands if strand.tip is not None}
    for link in links:
        x, y = arrangement.boxes[link.target]
        width = next(box.width for box in boxes if box.key == link.target)
        assert any(abs(tip_y - y) < 0.01 and x - 9 <= tip_x <= x + width + 9 for tip_x, tip_y in tips)
    for strand in arrangement.strands:
        for _, values in strand.commands:
            assert all(-25 <= value <= arrangement.width + 25 for value in values[::2])


def test_a_chain_is_drawn_as_one_straight_line() -> None:
    boxes = [Box(key=key, width=80 + 20 * key, height=40) for key in range(5)]
    links = [Link(source=key, target=key + 1, bundle="flow", is_main=True) for key in range(4)]
    arrangement = arrange(boxes, links)
    centres = {round(arrangement.boxes[box.key][0] + box.width / 2, 3) for box in boxes}
    assert len(centres) == 1
    assert all(name != "C" for strand in arrangement.strands for name, _ in strand.commands)


def test_a_link_back_runs_beside_the_boxes_it_passes() -> None:
    boxes = [Box(key=key, width=100, height=40) for key in range(3)]
    links = [Link(source=key, target=key + 1, bundle="flow", is_main=True) for key in range(2)]
    arrangement = arrange(boxes, [*links, Link(source=2, target=0, bundle="flow")])
    [back] = [strand for strand in arrangement.strands if strand.link == 2]
    reach = {value for _, values in back.commands for value in values[::2]}
    left, right = arrangement.boxes[1][0], arrangement.boxes[1][0] + 100
    assert min(reach) < left or max(reach) > right


def test_a_drawing_with_very_many_long_links_stays_affordable() -> None:
    count = 400
    boxes = [Box(key=key, width=80, height=40) for key in range(count)]
    links = [Link(source=key, target=key + 1, bundle="flow", is_main=True) for key in range(count - 1)]
    links += [Link(source=key, target=key + count // 2, bundle="flow") for key in range(count // 2)]
    arrangement = arrange(boxes, links)
    assert len(arrangement.boxes) == count
    assert sum(len(strand.commands) for strand in arrangement.strands) < 40_000


# Text


@given(st.text(max_size=40), st.floats(20, 300))
def test_a_fitted_text_is_no_wider_than_allowed(text: str, width: float) -> None:
    cut = fit(text, width, 12)
    assert width_of(cut, 12) <= width
    assert cut == text or cut.endswith("…")


@given(st.text())
def test_a_clean_text_is_one_line_that_xml_can_hold(text: str) -> None:
    cleaned = clean(text)
    assert ElementTree.fromstring(f"<a>{cleaned.replace('&', '').replace('<', '')}</a>").tag == "a"
    assert len(cleaned.splitlines()) <= 1


def test_a_node_that_continues_the_run_is_an_end_that_says_with_which_definition() -> None:
    again: JsonObject = {"id": "again", "type": "continue_as_new", "input": {}}
    for fields, caption in (({}, "continue_as_new"), ({"version": "newest"}, "continue_as_new · newest version")):
        nodes: list[JsonValue] = [step("work"), {**again, **fields}]
        panel = picture_of({"penstock": "v1", "name": "w", "nodes": nodes}).root
        [figure] = [item for item in panel.figures if item.name == "again"]
        assert (figure.category, figure.caption) == (Category.TERMINAL, caption)
        assert not any(arrow.source == figure.key for arrow in panel.arrows)
