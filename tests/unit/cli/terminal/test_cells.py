"""Cells of a terminal: what takes how many, and cutting to a number of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.terminal.cells import ELLIPSIS, cell_count, cut_cells, fit_cells, split_clusters

TEXTS = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab 日本👍🏽❤\ufe0f\u200d👩e\u0301ᄀ\u1161🇩🇪")), max_size=30
)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("ｶﾅ", 2),
        ("e\u0301", 1),
        ("✓ ●", 3),
        ("👍", 2),
        ("👍🏽", 2),
        ("🇩🇪", 2),
        ("❤", 1),
        ("❤\ufe0f", 2),
        ("1\ufe0f\u20e3", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("a\u200db", 2),
        ("soft\u00adhyphen", 11),
        ("\x1b\x07", 0),
    ],
)
def test_a_text_takes_the_cells_that_a_terminal_gives_it(text: str, cells: int) -> None:
    assert cell_count(text) == cells


@given(TEXTS)
def test_clusters_are_the_whole_text_and_have_all_its_cells(text: str) -> None:
    clusters = list(split_clusters(text))
    assert "".join(cluster for cluster, _ in clusters) == text
    assert sum(cells for _, cells in clusters) == cell_count(text)
    assert all(cells in (0, 1, 2) for _, cells in clusters)


@given(TEXTS, st.integers(0, 40))
def test_a_cut_text_fits_and_says_that_it_was_cut(text: str, cells: int) -> None:
    cut = cut_cells(text, cells)
    assert cell_count(cut) <= cells
    if cell_count(text) <= cells:
        assert cut == text
    elif cells:
        assert cut.endswith(ELLIPSIS)
        assert text.startswith(cut.removesuffix(ELLIPSIS))
        # Only a wide character that no longer fits leaves a cell free.
        assert cell_count(cut) >= cells - 1


@given(TEXTS, st.integers(0, 40))
def test_a_fitted_text_takes_exactly_its_cells(text: str, cells: int) -> None:
    assert cell_count(fit_cells(text, cells)) == cells
