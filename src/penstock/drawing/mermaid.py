"""Workflows as Mermaid flowcharts, for documents and chats that render Mermaid themselves.

Above it: `penstock graph`. Below it: `model` says what is drawn; Mermaid decides where. `svg` makes drawings that need
no renderer. Node ids and texts come from users, so figures get generated names, and every text is escaped character by
character.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.base.json import JsonObject
from penstock.base.text import clean
from penstock.definitions.node_parts.kind import Category
from penstock.drawing.model import ENTRY, EXIT, Arrow, Figure, Panel, picture_of

__all__ = ["to_mermaid"]

# Longer labels make renderers draw boxes wider than a page.
_LABEL_CHARACTERS_MAX = 64
_SAFE_PUNCTUATION = frozenset(" .,-_/()=!+*'")
_SHAPES: Mapping[Category, tuple[str, str]] = {
    Category.TERMINAL: ("([", "])"),
    Category.FAILURE: ("([", "])"),
    Category.WORK: ("[", "]"),
    Category.MODEL: ("[[", "]]"),
    Category.DECISION: ("{{", "}}"),
    Category.PERSON: ("[/", "/]"),
    Category.TIME: ("(", ")"),
    Category.DATA: ("[(", ")]"),
    Category.GROUP: ("[", "]"),
    Category.MISSING: (">", "]"),
}
_STYLES: Mapping[str, str] = {
    Category.TERMINAL: "fill:#e8ecf1,stroke:#64748b,color:#1c2530",
    Category.FAILURE: "fill:#fdeaea,stroke:#c93b3b,color:#1c2530",
    Category.WORK: "fill:#e9f1fe,stroke:#3b73d1,color:#1c2530",
    Category.MODEL: "fill:#f1ebfd,stroke:#7c4fd0,color:#1c2530",
    Category.DECISION: "fill:#fdf3dc,stroke:#b97d10,color:#1c2530",
    Category.PERSON: "fill:#fdebf3,stroke:#c23d80,color:#1c2530",
    Category.TIME: "fill:#e3f5f3,stroke:#178478,color:#1c2530",
    Category.DATA: "fill:#ebf5e6,stroke:#4c8a2f,color:#1c2530",
    Category.GROUP: "fill:#f6f8fa,stroke:#7d8b9b,color:#1c2530",
    Category.MISSING: "fill:#ffffff,stroke:#c93b3b,color:#c93b3b,stroke-dasharray:5 4",
    "branch": "fill:#ffffff,stroke:#7d8b9b,color:#55616f,stroke-dasharray:3 3",
    "dot": "fill:#1c2530,stroke:#1c2530,color:#1c2530",
}
_LINK_STYLES = {"error": "stroke:#c93b3b,color:#c93b3b", "timeout": "stroke:#178478,color:#178478"}


def to_mermaid(document: JsonObject) -> str:
    """Draw a document in either format; a broken one as far as it can be understood. One line per route."""
    picture = picture_of(document)
    writer = _Writer()
    body = list(writer.panel(picture.root, "root", 1))
    title = " ".join(part for part in ("Workflow", picture.name, picture.version) if part)
    lines = [
        "flowchart TD",
        f"  accTitle: {_plain(title)}",
        *body,
        *(f"  classDef {name} {style}" for name, style in _STYLES.items() if name in writer.classes),
        *(f"  class {','.join(names)} {name}" for name, names in writer.classes.items()),
        *(f"  linkStyle {','.join(map(str, writer.links[kind]))} {_LINK_STYLES[kind]}" for kind in writer.links),
        "",
    ]
    return "\n".join(lines)


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Writes nested panels and remembers what the styles at the end need."""

    classes: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, list[int]] = field(default_factory=dict)
    _links_count: int = 0

    def panel(self, panel: Panel, name: str, depth: int) -> Iterator[str]:
        """The figures of a panel, then its arrows."""
        indent = "  " * depth
        for key, marker in ((ENTRY, "entry"), (EXIT, "exit")):
            if any(key in (arrow.source, arrow.target) for arrow in panel.arrows):
                yield f'{indent}{name}_{marker}((" "))'
                self._style(f"{name}_{marker}", "dot")
        for figure in panel.figures:
            yield from self._figure(figure, depth)
        for arrow in panel.arrows:
            yield indent + self._arrow(arrow, name)

    def _figure(self, figure: Figure, depth: int) -> Iterator[str]:
        indent, name = "  " * depth, f"n{figure.key}"
        self._style(name, figure.category)
        texts = [_escaped(text) for text in (figure.name, figure.caption, figure.notes) if text]
        # Mermaid leaves room for one line above the content of a subgraph.
        label = (" · " if figure.panels else "<br/>").join(texts)
        if not figure.panels:
            opening, closing = _SHAPES[figure.category]
            yield f'{indent}{name}{opening}"{label or " "}"{closing}'
            return
        yield f'{indent}subgraph {name}["{label or " "}"]'
        yield f"{indent}  direction TB"
        for index, panel in enumerate(figure.panels):
            inner = f"{name}_{index}"
            if not panel.name:
                yield from self.panel(panel, inner, depth + 1)
                continue
            yield f'{indent}  subgraph {inner}["{_escaped(panel.name)}"]'
            yield f"{indent}    direction TB"
            self._style(inner, "branch")
            yield from self.panel(panel, inner, depth + 2)
            yield f"{indent}  end"
        yield f"{indent}end"

    def _arrow(self, arrow: Arrow, panel: str) -> str:
        source = f"{panel}_entry" if arrow.source == ENTRY else f"n{arrow.source}"
        target = f"{panel}_exit" if arrow.target == EXIT else f"n{arrow.target}"
        if arrow.kind in _LINK_STYLES:
            self.links.setdefault(arrow.kind, []).append(self._links_count)
        self._links_count += 1
        line = "-.->" if arrow.kind in _LINK_STYLES else "-->"
        label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
        return f"{source} {line}{label} {target}"

    def _style(self, name: str, style: str) -> None:
        self.classes.setdefault(str(style), []).append(name)


def _escaped(text: str) -> str:
    """Escape a text for a quoted label: characters that Mermaid or HTML could interpret become character numbers."""
    return "".join(
        character if _is_plain(character) else f"#{ord(character)};" for character in _shortened(clean(text))
    )


def _plain(text: str) -> str:
    """Clean a text for a line that Mermaid reads to its end, where it has no escapes."""
    return "".join(character for character in _shortened(clean(text)) if _is_plain(character))


def _is_plain(character: str) -> bool:
    return character.isalnum() or character in _SAFE_PUNCTUATION or not character.isascii()


def _shortened(text: str) -> str:
    return text if len(text) <= _LABEL_CHARACTERS_MAX else text[: _LABEL_CHARACTERS_MAX - 1].rstrip() + "…"
