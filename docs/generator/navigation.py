"""The order of the documentation: `docs/nav.yaml`, and the page `docs/README.md` that is made from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from docs.generator.markdown import link, page, table

__all__ = ["Entry", "Section", "contents_page", "read_navigation", "title_of"]

DOCS: Final = Path(__file__).parents[1]
NAVIGATION: Final = DOCS / "nav.yaml"


@dataclass(frozen=True, slots=True)
class Entry:
    """A page, by its path from `docs`, and what it is for."""

    path: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Section:
    """Pages under one heading. A section has pages or further sections."""

    title: str
    pages: tuple[Entry, ...]
    groups: tuple[Section, ...]

    def all_pages(self) -> Iterator[Entry]:
        """The pages of the section and of its groups, in order."""
        yield from self.pages
        for group in self.groups:
            yield from group.all_pages()


def read_navigation(text: str) -> tuple[Section, ...]:
    """The sections of `docs/nav.yaml`."""
    return tuple(map(_section, yaml.safe_load(text)["sections"]))


def _section(given: dict[str, Any]) -> Section:
    pages = tuple(Entry(item["path"], item["for"]) for item in given.get("pages", ()))
    return Section(given["title"], pages, tuple(map(_section, given.get("groups", ()))))


def title_of(path: str) -> str:
    """The heading of a page, which is its first line."""
    return (DOCS / path).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def contents_page() -> str:
    """The contents of the documentation."""
    return page("Documentation", "`docs/nav.yaml`", _parts())


def _parts() -> Iterator[str]:
    yield "Start with the [quick start](tutorials/quick-start.md), or find the page for what you want to do."
    for section in read_navigation(NAVIGATION.read_text(encoding="utf-8")):
        yield f"## {section.title}"
        if section.pages:
            yield _table(section.pages)
        for group in section.groups:
            yield f"### {group.title}"
            yield _table(group.pages)


def _table(entries: tuple[Entry, ...]) -> str:
    return table(["Page", "What it is for"], [[link(title_of(each.path), each.path), each.purpose] for each in entries])
