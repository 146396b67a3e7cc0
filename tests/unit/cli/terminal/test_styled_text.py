"""Texts with styles: measured, cut, padded and wrapped without losing a character or a style."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.terminal.cells import cell_count, split_clusters
from penstock.cli.terminal.styled_text import Text

WORDS = st.text(st.sampled_from("ab 日👍e\u0301"), max_size=12)
STYLES = st.sampled_from(["", "bold", "red", "dim", "bold green"])
PARTS = st.lists(st.tuples(WORDS, STYLES), max_size=6)


def styles_of(text: Text) -> list[tuple[str, str]]:
    """Every character that is no space, with its style."""
    return [(character, style) for piece, style in text.parts() for character in piece if character != " "]


def test_the_style_of_the_whole_comes_before_that_of_a_part() -> None:
    text = Text("a", style="dim").append("b", "red").append(Text("c", "bold"), "green")
    assert list(text.parts()) == [("a", "dim"), ("b", "dim red"), ("c", "dim green bold")]
    assert text.plain == "abc"


def test_a_style_is_made_of_known_words() -> None:
    with pytest.raises(ValueError, match="'mauve' is not a word of a style"):
        Text("a", style="bold mauve")
    with pytest.raises(ValueError, match="'loud'"):
        Text("a").append("b", "loud")


@given(PARTS)
def test_spaces_at_the_end_go_across_parts(parts: list[tuple[str, str]]) -> None:
    whole = "".join(piece for piece, _ in parts)
    assert Text.assemble(*parts).rstrip().plain == whole.rstrip()


@given(PARTS, st.integers(0, 30))
def test_a_cut_or_padded_text_fits_and_keeps_its_styles(parts: list[tuple[str, str]], cells: int) -> None:
    text = Text.assemble(*parts)
    cut, padded = text.cut(cells), text.pad(cells)
    assert cut.cells <= cells
    assert padded.cells == cells
    kept = [item for item in styles_of(cut) if item[0] != "…"]
    assert styles_of(text)[: len(kept)] == kept


@given(PARTS, st.integers(2, 30), st.integers(0, 8))
def test_wrapped_lines_fit_and_have_every_word_in_its_style(
    parts: list[tuple[str, str]], cells: int, indent: int
) -> None:
    text = Text.assemble(*parts)
    lines = text.wrap(cells, indent=indent)
    assert all(line.cells <= cells for line in lines)
    assert [item for line in lines for item in styles_of(line)] == styles_of(text)


@given(st.text(st.sampled_from("ab 日👍"), max_size=12), st.integers(2, 30))
def test_a_word_that_fits_is_not_broken(text: str, cells: int) -> None:
    lines = Text(text).wrap(cells)
    unbroken = {word for word in text.split() if cell_count(word) <= cells}
    if all(word in unbroken for word in text.split()):
        assert [word for line in lines for word in line.plain.split()] == text.split()


def test_wrapping_keeps_paragraphs_indents_and_breaks_a_long_word_anywhere() -> None:
    lines = Text("one two three\n\n  four\nabcdefghijkl").wrap(8, indent=2)
    assert [line.plain for line in lines] == ["one two", "  three", "", "  four", "abcdefgh", "  ijkl"]
    assert [line.plain for line in Text("日本語").wrap(5)] == ["日本", "語"]
    # A terminal of one cell cannot draw a wide character; it is still there.
    assert [line.plain for line in Text("日本").wrap(1)] == ["日", "本"]


@given(WORDS)
def test_lines_that_fit_stay_as_they_are(text: str) -> None:
    [line] = Text(text).wrap(1 + cell_count(text))
    assert line.plain == text.rstrip()
    assert sum(cells for _, cells in split_clusters(text)) >= line.cells
