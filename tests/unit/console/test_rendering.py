"""How pages show texts: escaped, and with everything that would not be seen written out."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from penstock.base import limits
from penstock.console.rendering import cut_value, environment, whole_value


def shown(value: object) -> str:
    return environment().from_string("<p>{{ value }}</p>").render(value=value)


def test_markup_is_text_and_unseen_characters_are_written_out() -> None:
    assert shown("<b>&") == "<p>&lt;b&gt;&amp;</p>"
    assert shown("a\u202eb\u200bc\x1bd\u2066e\U000e0041") == "<p>a[U+202E]b[U+200B]c[U+001B]d[U+2066]e[U+E0041]</p>"
    assert shown("Ünïcödé 漢字\n\t日本") == "<p>Ünïcödé 漢字\n\t日本</p>"


def test_our_own_markup_stays_markup_but_hides_nothing_either() -> None:
    assert shown(Markup("<i>a\u202eb</i>")) == "<p><i>a[U+202E]b</i></p>"


def test_a_long_value_is_cut_and_says_so() -> None:
    assert cut_value({"a": 1}) == ('{\n  "a": 1\n}', False)
    text, is_cut = cut_value("x" * (limits.CONSOLE_VALUE_CHARACTERS_MAX + 1))
    assert (len(text), is_cut) == (limits.CONSOLE_VALUE_CHARACTERS_MAX, True)


def test_a_value_is_not_written_further_than_it_is_shown() -> None:
    class Reading(list[int]):
        """A list that knows how far it was read."""

        read = 0

        def __iter__(self) -> Iterator[int]:
            for item in super().__iter__():
                self.read += 1
                yield item

    items = Reading(range(100_000))
    assert cut_value(items, 1_000) == (whole_value(list(range(1_000)))[:1_000], True)
    assert items.read < 1_000


def test_what_somebody_typed_comes_back_into_its_field_as_it_was() -> None:
    field = environment().from_string('<input value="{{ value | typed }}">')
    assert field.render(value='a\u200db"<b>') == '<input value="a\u200db&quot;&lt;b&gt;">'
