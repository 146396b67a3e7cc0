"""Tokens of the graph languages: positions, strings, comments, and what is no token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.definitions.source.findings import Position
from penstock.graph.syntax.tokens import TokenKind, quoted, tokenize


def test_tokens_have_kinds_texts_and_positions() -> None:
    tokens = tokenize('query $a:\n  "x" 1.5 12 -> @key Type')
    assert [(each.kind, each.text) for each in tokens.tokens] == [
        (TokenKind.NAME, "query"),
        (TokenKind.VARIABLE, "a"),
        (TokenKind.SYMBOL, ":"),
        (TokenKind.STRING, "x"),
        (TokenKind.FLOAT, "1.5"),
        (TokenKind.INTEGER, "12"),
        (TokenKind.SYMBOL, "->"),
        (TokenKind.META, "key"),
        (TokenKind.TYPE, "Type"),
        (TokenKind.END, ""),
    ]
    assert tokens.tokens[3].position == Position(line=2, column=3)
    assert tokens.findings == ()


def test_a_range_of_integers_is_no_fraction() -> None:
    assert [each.text for each in tokenize("0..200 1.5..2.5").tokens] == ["0", "..", "200", "1.5", "..", "2.5", ""]


def test_comments_are_kept_and_say_whether_they_stand_alone() -> None:
    comments = tokenize("// one\na // two\n/* three\n */ /* four */ b").comments
    assert [(each.text, each.stands_alone) for each in comments] == [
        ("// one", True),
        ("// two", False),
        ("/* three\n */", True),
        ("/* four */", True),
    ]


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"\\ \/ \n\t\r\b\f"', "\\ / \n\t\r\b\f"),
        (r'"\u00e9"', "é"),
        (r'"\ud83d\ude00"', "\N{GRINNING FACE}"),
        ('"two\nlines"', "two\nlines"),
    ],
)
def test_strings_are_decoded(literal: str, text: str) -> None:
    tokens = tokenize(literal)
    assert tokens.tokens[0].text == text
    assert tokens.findings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'"\q"', r"`\q` is not an escape"),
        (r'"\ud83d"', r"a `\u` escape is half of a pair"),
        ('"open', "the string has no end"),
        ("/* open", "the comment has no end"),
        ("'x'", 'unexpected character "\'"'),
        ("a & b", "unexpected character '&'"),
        ("\ud800", "the text has half of a surrogate pair"),
        ("x" * 200, f"a name has at most {limits.GRAPH_NAME_CHARACTERS_MAX} characters"),
    ],
)
def test_what_is_no_token_is_reported(text: str, message: str) -> None:
    assert tokenize(text).findings[0].message == message


def test_a_text_that_is_too_long_is_not_read() -> None:
    (finding,) = tokenize("x" * (limits.GRAPH_TEXT_CHARACTERS_MAX + 1)).findings
    assert finding.code == "TEXT_TOO_LARGE"


@given(st.text())
def test_no_text_breaks_the_tokenizer(text: str) -> None:
    tokens = tokenize(text)
    assert tokens.tokens[-1].kind is TokenKind.END
    starts = [each.start for each in tokens.tokens]
    assert starts == sorted(starts)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_that_is_quoted_is_read_as_it_was(text: str) -> None:
    tokens = tokenize(quoted(text))
    assert tokens.tokens[0].text == text
    assert tokens.findings == ()
