"""Pages of help: everything is on them, and they fit."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.commands.help_page import HelpPage, Row, Section, help_lines

PAGE = HelpPage(
    "penstock greet [OPTIONS] NAME",
    "Greet somebody.\n\nA second paragraph, which is\nlonger than one line of a narrow terminal.\n\n"
    "- one item of a list that is long enough to be wrapped\n- two\n\n    greet Ada   # as it is, however long\n",
    [
        Section("Arguments", [Row("NAME", "Who.")]),
        Section(
            "Options",
            [
                Row("--times", "How often.", "N", "default: 1"),
                Row("--a-very-long-option-with-a-name", "Its text stands below.", "VALUE"),
                Row("--json", ""),
            ],
        ),
        Section("Empty", []),
    ],
)
WORDS = st.lists(st.text("abc日", min_size=1, max_size=12), max_size=12).map(" ".join)
ROWS = st.builds(Row, st.text("abc-", min_size=1, max_size=40), WORDS, st.text("XY", max_size=6), WORDS)


def lines(page: HelpPage, columns: int) -> list[str]:
    return [line.plain for line in help_lines(page, columns)]


def test_a_page_has_its_usage_its_text_and_its_lists_aligned() -> None:
    assert lines(PAGE, 60) == [
        "Usage: penstock greet [OPTIONS] NAME",
        "",
        "Greet somebody.",
        "",
        "A second paragraph, which is longer than one line of a",
        "narrow terminal.",
        "",
        "- one item of a list that is long enough to be wrapped",
        "- two",
        "",
        "    greet Ada   # as it is, however long",
        "",
        "Arguments:",
        "  NAME       Who.",
        "",
        "Options:",
        "  --times N  How often. [default: 1]",
        "  --a-very-long-option-with-a-name VALUE",
        "             Its text stands below.",
        "  --json",
    ]


def test_items_are_indented_where_they_are_wrapped() -> None:
    shown = lines(PAGE, 40)
    at = shown.index("- one item of a list that is long enough")
    assert shown[at + 1 : at + 3] == ["  to be wrapped", "- two"]


def test_in_a_narrow_terminal_texts_stand_below_their_labels() -> None:
    shown = lines(PAGE, 30)
    at = shown.index("  --times N")
    assert shown[at + 1] == "      How often. [default: 1]"


@given(WORDS, WORDS, st.lists(ROWS, max_size=4), st.integers(20, 140))
def test_every_word_is_on_the_page_and_lines_fit(usage: str, text: str, rows: list[Row], columns: int) -> None:
    found = list(help_lines(HelpPage(usage, text, [Section("Options", rows)]), columns))
    assert all(line.cells <= min(columns, 100) for line in found)
    shown = "".join("".join(line.plain.split()) for line in found)
    for words in (usage, text, *(row.text for row in rows)):
        assert "".join(words.split()) in shown
