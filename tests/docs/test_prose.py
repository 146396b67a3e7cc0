"""The check of prose finds what a reader stops at, and nothing in code."""

from pathlib import Path

import pytest

from docs.generator.prose import find_in_page, find_in_source, find_in_tree, main


@pytest.mark.parametrize(
    "text",
    [
        "A call waits for whoever may approve it.",
        "The caller is told what happened.",
        "After a crash the run goes on.",
        "A page for those who decide.",
        "The list is none.",
        "This is how a draft stands.",
        "The page is asked for again.",
        "Show what became of it.",
        "The text is no number.",
        "A load is under way.",
        "It begins anew.",
        "Later votes count for nothing.",
        "An approval says so in so many words.",
        "Use what there is.",
        "The socket stays open for ever.",
        "Names outside of the block are free.",
    ],
)
def test_a_phrase_that_we_do_not_use_is_found(text: str) -> None:
    assert len(list(find_in_page("page.md", text))) == 1


def test_a_long_sentence_is_found_with_its_line() -> None:
    (found,) = find_in_page("page.md", "Short.\n\n" + "word " * 35 + "end.")
    assert (found.line, found.advice) == (3, "36 words; split the sentence")


def test_in_source_a_sentence_is_shorter_and_a_semicolon_ends_a_part_of_it() -> None:
    long, parts = "word " * 30 + "end.", "word " * 25 + "end; " + "word " * 25 + "end."
    (found,) = find_in_source("module.py", f'"""Short.\n\n{long}\n\n{parts}\n"""\n')
    assert (found.line, found.advice) == (3, "31 words; split the sentence")


@pytest.mark.parametrize(
    "example", ["    word " + "word " * 40, "word | " * 40, "SELECT word FROM table " + "word " * 40]
)
def test_examples_tables_and_statements_of_a_docstring_are_no_sentences(example: str) -> None:
    assert list(find_in_source("module.py", f'"""Short.\n\n{example}\n\nThe end.\n"""\n')) == []


ACTIVE, PASSIVE = "The server checks each record. ", "Each record is checked by the server. "


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (ACTIVE * 13 + PASSIVE * 7, "7 of 20 sentences are passive"),
        (ACTIVE * 14 + PASSIVE * 6, None),
        (PASSIVE * 19, None),  # too short to say
        (ACTIVE * 13 + "The value was never written down. " * 7, "7 of 20 sentences are passive"),
        (ACTIVE * 13 + "It is red and it is open. " * 7, None),
    ],
)
def test_a_page_with_too_many_passive_sentences_is_found(text: str, share: str | None) -> None:
    assert [found.text for found in find_in_page("page.md", text)] == ([share] if share else [])


def test_a_source_file_may_have_more_passive_sentences_than_a_page() -> None:
    def source(active: int, passive: int) -> str:
        return "".join(f'"""{text.strip()}"""\n' for text in [ACTIVE] * active + [PASSIVE] * passive)

    assert list(find_in_source("module.py", source(11, 9))) == []
    assert [found.text for found in find_in_source("module.py", source(10, 10))] == ["10 of 20 sentences are passive"]


@pytest.mark.parametrize(
    ("allowed", "count"),
    [
        ('HINT = "ask whoever made the key"  # prose: a quotation\n', 0),
        ('# prose: a quotation\nHINT = "ask whoever made the key"\n', 0),
        ('HINT = "ask whoever made the key"  # prose:\n', 1),
        ('HINT = "ask whoever made the key"  # fine\n', 1),
    ],
)
def test_a_finding_is_allowed_in_its_place_with_a_reason(allowed: str, count: int) -> None:
    assert len(list(find_in_source("module.py", allowed))) == count


def test_a_finding_of_a_page_is_allowed_on_the_line_before_it() -> None:
    page = "<!-- prose: a quotation -->\nAsk whoever made the key.\n\nAsk whoever made the key.\n"
    assert [found.line for found in find_in_page("page.md", page)] == [4]


@pytest.mark.parametrize(
    "text",
    [
        "```sh\necho whoever\n```\n",
        "Write `whoever` here.",
        "[a page](whoever.md)",
        "{% if value is none %}Nothing.{% endif %}",
        "Runs resume after a crash.",
        "There is no token, and the token is no longer valid.",
        "The value is None.",
    ],
)
def test_code_addresses_and_plain_prose_are_not_findings(text: str) -> None:
    assert list(find_in_page("page.md", text)) == []


def test_texts_and_docstrings_of_the_source_are_read_and_names_are_not() -> None:
    source = '"""What whoever calls this gets."""\nNAME = "whoever"\nHINT = "ask whoever made the key"\n'
    assert [found.line for found in find_in_source("module.py", source)] == [1, 3]


def test_the_check_fails_on_any_finding_and_names_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("Ask the owner.\n", encoding="utf-8")
    assert main(["--check"], tmp_path) == 0
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    for page in ("generated.md", "../guide.md"):
        (tmp_path / "docs" / "reference" / page).write_text("Wait.\n\nAsk whoever made the key.\n", encoding="utf-8")
    assert main(["--check"], tmp_path) == 1
    assert main(["--check", "README.md"], tmp_path) == 0
    assert main([], tmp_path) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in listed] == ["docs/guide.md:3", "docs/guide.md:3"]


def test_the_tree_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "src" / "penstock").mkdir(parents=True)
    (tmp_path / "src" / "penstock" / "keys.py").write_text('"""For whoever asks for it."""\n', encoding="utf-8")
    (tmp_path / "src" / "penstock" / "clean.py").write_text('"""Keys of the server."""\n', encoding="utf-8")
    assert {name: [item.path for item in items] for name, items in find_in_tree(tmp_path).items()} == {
        "src/penstock/keys.py": ["src/penstock/keys.py"]
    }


def test_a_text_with_values_in_it_is_read_whole() -> None:
    (found,) = find_in_source("a.py", 'x = f"run {run} asks nothing"\n')
    assert found.text == "asks nothing"
    assert list(find_in_source("a.py", 'x = f"run {run} is not waiting for an answer"\n')) == []
