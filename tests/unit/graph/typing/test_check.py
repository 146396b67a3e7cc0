"""The check of a query as a whole: parameters, warnings, and everything at once."""

import pytest
from hypothesis import given

from penstock.definitions.source.findings import Severity
from penstock.graph.query.parser import parse_queries
from penstock.graph.typing.check import check_query
from tests.unit.graph.samples import checked, codes, findings, query, query_texts, work


def warnings(text: str) -> list[str]:
    found = findings(text)
    assert all(each.severity is Severity.WARNING for each in found)
    assert check_query(query(text), work()).query is not None
    return [each.code for each in found]


def test_a_checked_query_has_its_texts_and_what_it_reads() -> None:
    found = checked(
        'query q() @description("d") @instruction("i") @mcp(expose: false, tool_name: "t") '
        "{ match { $u: User $u owns $t } return { $t.slug } }"
    )
    assert (found.description, found.instruction, found.expose, found.tool_name) == ("d", "i", False, "t")
    assert (found.reads, found.writes, found.is_mutation) == (("Owns", "Task", "User"), (), False)
    assert checked("query q() { match { $u: User } return { $u } }").expose


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("match { $t: Task { state: $p } } return { $t }", ("blocked", "done", "open")),
        ("match { $t: Task $t.state != $p } return { $t }", ("blocked", "done", "open")),
        ("match { $t: Task $t.state = $p or $p is null } return { $t }", ("blocked", "done", "open")),
        ("match { $t: Task $t.state = $p $t.title = $p } return { $t }", None),
        ("match { $t: Task $u: User $t.state = $p $u.level = $p } return { $t }", None),
        ("match { $t: Task $t.title = $p } return { $t }", None),
        ("match { $t: Task $t.state contains $p } return { $t }", None),
        ("match { $t: Task $t.state starts_with $p } return { $t }", None),
        ("match { $t: Task $t.state < $p } return { $t }", None),
        ("update Task set { state: $p } where title is null", ("blocked", "done", "open")),
    ],
)
def test_a_parameter_takes_the_values_of_the_only_enum_it_is_used_with(
    body: str, values: tuple[str, ...] | None
) -> None:
    (parameter,) = checked(f"query q($p: String?) {{ {body} }}").parameters
    assert parameter.values == values


def test_a_list_parameter_takes_the_values_of_an_enum_too() -> None:
    (parameter,) = checked("query q($p: [String]) { match { $t: Task $t.state in $p } return { $t } }").parameters
    assert parameter.values == ("blocked", "done", "open")


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("($a: String, $a: String)", "DUPLICATE_PARAMETER"),
        ("($_: String)", "T47"),
        ("($__nanograph_now: String)", "T47"),
        ('() @mcp(tool_name: "no spaces")', "TOOL_NAME"),
        (f'() @mcp(tool_name: "{"x" * 65}")', "TOOL_NAME"),
    ],
)
def test_mistakes_of_the_head_are_named(head: str, code: str) -> None:
    assert codes(f"query q{head} {{ match {{ $u: User }} return {{ $u }} }}")[0] == code


def test_what_is_probably_not_meant_is_a_warning() -> None:
    assert warnings("query q($a: String) { match { $u: User } return { $u } }") == ["UNUSED_PARAMETER"]
    assert warnings("query q() { match { $u: User $t: Team } return { $u } }") == ["UNCONNECTED"]
    assert warnings("query q() { match { $_ leads $u $u: User $t: Task $_ owns $t } return { $u } }") == ["UNCONNECTED"]
    assert warnings("query q() { match { $u: User $t: Team $u.handle = $t.name } return { $u } }") == []
    assert warnings("query q() { match { $u: User $t: Team exists { $u memberOf $t } } return { $u } }") == []
    vector = "{ match { $d: Doc } return { $d.slug } order { nearest($d.embedding, $v) } limit 3 }"
    assert warnings(f"query q($v: Vector(3)) {vector}") == ["VECTOR_EXPOSED"]
    assert warnings(f"query q($v: Vector(3)) @mcp(expose: false) {vector}") == []


def test_everything_is_reported_at_once_in_order() -> None:
    text = (
        'query q($x: String, $x: I32) {\n match { $u: Usr\n $v: User { hndle: 1 }\n $v wons $t\n $v.age = "x" }\n'
        " return { $v.bio, $v.bio }\n order { nope } }"
    )
    found = findings(text)
    assert [(each.position.line, each.code) for each in found if each.position] == [
        (1, "DUPLICATE_PARAMETER"),
        (2, "T1"),
        (3, "T2"),
        (4, "T4"),
        (5, "T7"),
        (6, "T25"),
        (7, "T42"),
    ]
    assert check_query(query(text), work()).query is None


@given(query_texts())
def test_no_query_breaks_the_check(text: str) -> None:
    for each in parse_queries(text).queries:
        checking = check_query(each, work())
        assert (checking.query is None) == any(each.severity is Severity.ERROR for each in checking.findings)
