"""A query as a tool."""

import pytest

from penstock.graph.parameters.tools import (
    tool_annotations,
    tool_description,
    tool_input_schema,
    tool_name,
    tool_output_schema,
)
from tests.unit.graph.samples import checked

READ = "{ match { $u: User } return { $u } }"


def test_the_description_has_the_instruction_behind_an_empty_line() -> None:
    assert tool_description(checked(f'query q() @instruction("How.") @description("What.") {READ}')) == "What.\n\nHow."
    assert tool_description(checked(f"query q() {READ}")) == "Runs the stored query `q`."


def test_the_name_is_that_of_the_query_unless_it_says_another() -> None:
    assert tool_name(checked(f"query find() {READ}")) == "find"
    assert tool_name(checked(f'query find() @mcp(tool_name: "finder") {READ}')) == "finder"


@pytest.mark.parametrize(
    ("body", "destructive", "idempotent"),
    [
        ('{ insert Note { text: "x" } insert Owns { from: "a", to: "b" } }', False, False),
        ('{ insert Team { name: "x" } }', True, False),
        (
            '{ update Team set { name: "x" } where name is null }'.replace("Team", "Note").replace("name", "text"),
            True,
            False,
        ),
        ('{ delete Team where name = "x" }', True, True),
    ],
)
def test_mutations_say_whether_they_destroy(body: str, destructive: bool, idempotent: bool) -> None:
    assert tool_annotations(checked(f"query q() {body}")) == {
        "readOnlyHint": False,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": False,
    }


def test_reads_only_read() -> None:
    query = checked(f"query q() {READ}")
    assert tool_annotations(query) == {"readOnlyHint": True, "openWorldHint": False}
    assert tool_input_schema(query)["type"] == "object"
    assert tool_output_schema(query)["type"] == "object"
