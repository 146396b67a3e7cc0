"""The check of prose finds what a reader stops at, and nothing in code."""

import pytest

from docs.generator.prose import find_in_page, find_in_source, find_in_tree


@pytest.mark.parametrize(
    "text",
    [
        "A call waits for whoever may approve it.",
        "The caller is told what happened.",
        "After a crash the run goes on.",
        "A page for those who decide.",
        "There is none\nof it.".replace("\nof it", ""),
    ],
)
def test_a_phrase_that_we_do_not_use_is_found(text: str) -> None:
    assert len(list(find_in_page("page.md", text))) == 1


def test_a_long_sentence_is_found_with_its_line() -> None:
    (found,) = find_in_page("page.md", "Short.\n\n" + "word " * 41 + "end.")
    assert (found.line, found.advice) == (3, "42 words; split the sentence")


@pytest.mark.parametrize(
    "text",
    [
        "```sh\necho whoever\n```\n",
        "Write `whoever` here.",
        "[a page](whoever.md)",
        "{% if value is none %}Nothing.{% endif %}",
        "Runs resume after a crash.",
    ],
)
def test_code_addresses_and_plain_prose_are_not_findings(text: str) -> None:
    assert list(find_in_page("page.md", text)) == []


def test_texts_and_docstrings_of_the_source_are_read_and_names_are_not() -> None:
    source = '"""What whoever calls this gets."""\nNAME = "whoever"\nHINT = "ask whoever made the key"\n'
    assert [found.line for found in find_in_source("module.py", source)] == [1, 3]


def test_findings_of_the_tree_are_listed_by_file() -> None:
    assert all(item.path == name for name, items in find_in_tree().items() for item in items)
