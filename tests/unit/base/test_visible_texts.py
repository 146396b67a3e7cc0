"""Characters that nobody sees are written out; all others stay."""

from __future__ import annotations

from markupsafe import Markup

from penstock.base.visible_texts import visible_text


def test_what_hides_or_turns_others_around_is_written_out() -> None:
    assert visible_text("a\u202eb\u200bc\x00d") == "a[U+202E]b[U+200B]c[U+0000]d"
    assert visible_text("Ünïcödé 漢字\n\t<b>") == "Ünïcödé 漢字\n\t<b>"


def test_markup_stays_markup() -> None:
    found = visible_text(Markup("<b>a\u202e</b>"))
    assert isinstance(found, Markup)
    assert found == "<b>a[U+202E]</b>"
