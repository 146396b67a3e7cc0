"""The documentation has an order, and every page fits a site: one heading, a first sentence, a length."""

import re
from pathlib import Path

import pytest

from docs.generator.navigation import NAVIGATION, Entry, Section, read_navigation, title_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTIONS = read_navigation(NAVIGATION.read_text(encoding="utf-8"))
LISTED = [entry.path for section in SECTIONS for entry in section.all_pages()]
# Pages that are listed by another page: the contents itself, and single decisions.
UNLISTED = re.compile(r"README\.md|decisions/\d{4}-[\w-]+\.md")
WRITTEN = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
PAGES = [page for page in WRITTEN if not UNLISTED.fullmatch(page)]
GUIDES = [page for page in PAGES if page.startswith("guides/")]
GUIDE_WORDS_MAX = 1_500
NAME = re.compile(r"[a-z0-9-]+\.md|README\.md")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def without_code(page: str) -> str:
    return FENCED.sub("", (DOCS / page).read_text(encoding="utf-8"))


def test_every_page_has_one_place_in_the_order() -> None:
    assert sorted(path for path in LISTED if not path.startswith("../")) == PAGES
    assert len(LISTED) == len(set(LISTED))
    assert [path for path in LISTED if not (DOCS / path).is_file()] == []


def test_a_section_holds_the_pages_of_its_folder() -> None:
    folders = {"Tutorials": "tutorials", "How-to guides": "guides"}
    for section in SECTIONS:
        folder = folders.get(section.title.partition(":")[0])
        pages = [entry.path for entry in section.all_pages() if not entry.path.startswith("../")]
        assert [page for page in pages if page.partition("/")[0] in folders.values() and folder is None] == []
        assert [page for page in pages if folder is not None and page.partition("/")[0] != folder] == []


def test_sections_are_read_with_their_groups() -> None:
    text = "sections: [{title: A, groups: [{title: B, pages: [{path: b.md, for: c}]}]}]"
    inner = Section("B", (Entry("b.md", "c"),), ())
    assert read_navigation(text) == (Section("A", (), (inner,)),)
    assert list(read_navigation(text)[0].all_pages()) == [Entry("b.md", "c")]


def test_titles_of_pages_differ() -> None:
    titles = [title_of(page) for page in LISTED]
    assert [title for title in titles if titles.count(title) > 1] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_heading_at_its_top_and_says_what_it_is_for(page: str) -> None:
    text = without_code(page)
    assert NAME.fullmatch(Path(page).name)
    assert text.startswith("# ")
    assert re.findall(r"^# ", text, re.MULTILINE) == ["# "]
    first = COMMENT.sub("", text).split("\n\n", 1)[1].strip().split("\n\n", 1)[0]
    assert first[0].isalpha() or first[0] in "`["
    assert "." in first


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_is_short_and_says_where_to_continue(page: str) -> None:
    whole = (DOCS / page).read_text(encoding="utf-8")
    assert len(whole.split()) <= GUIDE_WORDS_MAX
    last = re.findall(r"^## (.*)$", without_code(page), re.MULTILINE)[-1]
    assert last == "Next steps"
    assert whole.rpartition("## Next steps")[2].count("](") >= 1
