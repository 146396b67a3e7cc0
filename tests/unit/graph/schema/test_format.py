"""The formatter of the schema language."""

from textwrap import dedent

from hypothesis import given

from penstock.graph.schema.format import format_schema
from penstock.graph.schema.parser import parse_declarations
from penstock.graph.syntax.tokens import tokenize
from tests.unit.graph.samples import schema_texts


def test_a_schema_is_formatted_and_keeps_its_comments() -> None:
    text = dedent("""\
        // people
        node User@key( name ){name:String  // the name
           age : I32 ? @range(age,0 .. 200)
        // no more
        }
        edge Knows:User->User@card(0..){ } // empty
    """)
    expected = dedent("""\
        // people
        node User {
          name: String
        }
    """)
    assert isinstance(format_schema(expected), str)
    formatted = format_schema(text.replace("@key( name )", ""))
    assert formatted == dedent("""\
        // people
        node User {
          name: String  // the name
          age: I32?
          @range(age, 0..200)
          // no more
        }

        edge Knows: User -> User @card(0..)  // empty
    """)


def test_empty_lines_between_comments_are_kept_as_one() -> None:
    text = dedent("""\
        // head


        // section

        // about A
        node A {
          // one

          // two
          a: I32

          b: I32
        }

        // section


        node B {
        }
    """)
    assert format_schema(text) == text.replace("\n\n\n", "\n\n").replace("I32\n\n", "I32\n")


def test_a_schema_that_cannot_be_read_is_not_formatted() -> None:
    formatted = format_schema("node A {")
    assert not isinstance(formatted, str)
    assert formatted[0].code == "SYNTAX"


def test_an_empty_text_stays_empty() -> None:
    assert format_schema(" \n ") == ""
    assert format_schema("// only this") == "// only this\n"


@given(schema_texts())
def test_formatting_changes_no_meaning_loses_no_comment_and_is_done_after_once(text: str) -> None:
    formatted = format_schema(text)
    assert isinstance(formatted, str)
    assert parse_declarations(formatted).declarations == parse_declarations(text).declarations
    assert format_schema(formatted) == formatted
    before, after = (sum(each.text.count("note") for each in tokenize(each).comments) for each in (text, formatted))
    assert before == after
