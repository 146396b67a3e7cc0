"""Pictures for pages: nodes are links, states are classes, and no text of a document becomes markup or style."""

from __future__ import annotations

from importlib.resources import files
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from penstock.drawing.style import page_rules
from penstock.drawing.svg import to_page_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'x"><script>alert(1)</script>\u202e'


def document(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"penstock": "v1", "name": HOSTILE, "title": HOSTILE, "nodes": [*nodes]}


def test_every_node_is_a_link_with_a_name_and_a_state_and_nothing_has_styles_or_scripts() -> None:
    loop = {
        "id": "again",
        "type": "loop",
        "until": "true",
        "nodes": [{"id": HOSTILE, "type": "end", "output": HOSTILE}],
    }
    drawn = to_page_svg(document(loop, {"id": "done", "type": "end"}), {"done": "failed"})
    found = ElementTree.fromstring(drawn)
    links = {item.get("href"): item for item in found.iter(f"{SVG}a")}
    assert {*links} == {"#node-again", "#node-done", f"#node-{quote(HOSTILE, safe='')}"}
    assert "state-failed" in str(links["#node-done"].get("class"))
    assert str(links["#node-done"].get("aria-label")).endswith("failed")
    assert not [item.tag for item in found.iter() if item.tag in (f"{SVG}style", f"{SVG}script")]
    assert not [name for item in found.iter() for name in item.attrib if name == "style" or name.startswith("on")]
    assert "\u202e" not in drawn


def test_the_stylesheet_of_the_console_has_the_rules_of_pictures() -> None:
    sheet = files("penstock.console").joinpath("static", "console.css").read_text(encoding="utf-8").splitlines()
    missing = [rule for rule in page_rules() if rule not in sheet]
    assert missing == [], "\n".join(missing)
