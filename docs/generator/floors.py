"""The pictures of ARCHITECTURE.md: the members of each package below `penstock`, and which imports which.

They are drawn from the import graph. The members of a package have no import cycles (a contract checks this), so an
arrow that follows from others can be left out: the pictures show the transitive reduction.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import grimp

__all__ = ["FLOOR_PAGES", "fewest_edges", "floor_picture", "with_pictures"]

ROOT = Path(__file__).parents[2]
FLOOR_PAGES = ("ARCHITECTURE.md",)
_BLOCK = re.compile(r"(?P<open><!-- floor: (?P<name>\S+) -->\n).*?(?P<close><!-- end of floor -->)", re.DOTALL)
_LABEL_CHARACTERS = 34
_SENTENCE_CHARACTERS_MAX = 90


def with_pictures(text: str) -> str:
    """The page with every picture redrawn."""
    return _BLOCK.sub(lambda found: f"{found['open']}{floor_picture(found['name'])}{found['close']}", text)


def floor_picture(package: str) -> str:
    """The picture of one package, as Mermaid."""
    members = _members(package)
    lines = [f"    {_name(member)}{_box(package, member)}" for member in members]
    for importer, imported in fewest_edges(_edges(package, members)).items():
        lines += [f"    {_name(importer)} --> {_name(other)}" for other in sorted(imported)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```", ""])


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("penstock", cache_dir=None)


def _members(package: str) -> list[str]:
    found = _graph().find_children(f"penstock.{package}")
    return sorted(name.rpartition(".")[2] for name in found)


def _edges(package: str, members: list[str]) -> dict[str, set[str]]:
    """For each member, the members that it or a module inside it imports."""
    above = f"penstock.{package}."
    found: dict[str, set[str]] = {member: set() for member in members}
    graph = _graph()
    for module in graph.modules:
        if not module.startswith(above):
            continue
        importer = module.removeprefix(above).partition(".")[0]
        for imported in graph.find_modules_directly_imported_by(module):
            if imported.startswith(above):
                found[importer].add(imported.removeprefix(above).partition(".")[0])
    return {importer: imported - {importer} for importer, imported in found.items()}


def fewest_edges(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The transitive reduction of a graph without cycles."""

    @cache
    def reached(node: str) -> frozenset[str]:
        return frozenset(edges[node]).union(*(reached(other) for other in edges[node]))

    return {
        node: {other for other in direct if not any(other in reached(between) for between in direct - {other})}
        for node, direct in edges.items()
    }


def _name(member: str) -> str:
    # Some names mean something in Mermaid ("graph", "end").
    return f"m_{member}"


def _box(package: str, member: str) -> str:
    """A box for a package, with round corners for a module, and the first sentence of its docstring."""
    folder = ROOT / "src" / "penstock" / package / member
    is_package = (folder / "__init__.py").is_file()
    path = folder / "__init__.py" if is_package else folder.with_suffix(".py")
    words = "<br/>".join(textwrap.wrap(_sentence(path), _LABEL_CHARACTERS))
    return f'["<b>{member}/</b><br/>{words}"]' if is_package else f'("<b>{member}</b><br/>{words}")'


def _sentence(path: Path) -> str:
    """The first sentence of a docstring; if it is long, only the part before its first colon, semicolon or comma."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(text.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[\w)])\.(?:\s|$)", sentence)[0]
    for pause in (r"[:;] ", r" \(|, "):
        if len(sentence) > _SENTENCE_CHARACTERS_MAX:
            sentence = re.split(pause, sentence)[0]
    return sentence.replace("`", "").replace('"', "'").replace("<", "&lt;").replace(">", "&gt;")
