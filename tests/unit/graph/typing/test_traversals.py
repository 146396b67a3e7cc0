"""Traversals: edge types, directions and steps."""

import pytest

from penstock.base import limits
from penstock.graph.typing.patterns import Direction, Hop
from tests.unit.graph.samples import checked_read, findings, match_codes


def hop(text: str, match: str = "$u: User") -> Hop:
    (found,) = checked_read(f"{match} {text}").pattern.hops
    return found


def directions(found: Hop) -> list[tuple[str, Direction]]:
    return [(each.type.name, each.direction) for each in found.edges]


def test_an_edge_is_followed_outwards_unless_the_bound_node_is_its_target() -> None:
    assert directions(hop("$u owns $t")) == [("Owns", Direction.OUT)]
    assert directions(hop("$t owns $u")) == [("Owns", Direction.IN)]
    assert directions(hop("$u leads $t")) == [("Leads", Direction.IN)]
    assert directions(hop("$u knows $v")) == [("Knows", Direction.OUT)]


def test_a_traversal_may_be_written_from_the_target() -> None:
    found = hop("$t owns $u", "$u: User $t: Task")
    assert (found.source, found.target, directions(found)) == ("t", "u", [("Owns", Direction.IN)])


def test_alternatives_have_directions_of_their_own() -> None:
    assert directions(hop("$u (memberOf|leads) $t")) == [("MemberOf", Direction.OUT), ("Leads", Direction.IN)]
    assert directions(hop("$u (likes|knows|likes) $v")) == [("Knows", Direction.OUT), ("Likes", Direction.OUT)]
    assert match_codes("$u (knows|owns) $v") == ["T5"]


def test_the_wildcard_selects_all_edge_types_between_both_node_types() -> None:
    assert directions(hop("$u * $v", "$u: User $v: User")) == [("Knows", Direction.OUT), ("Likes", Direction.OUT)]
    assert directions(hop("$u * $t", "$u: User $t: Team")) == [("MemberOf", Direction.OUT), ("Leads", Direction.IN)]
    assert directions(hop("$u * $d", "$u: User $d: Doc")) == []
    assert match_codes("$u * $v") == ["T6"]


def test_edges_without_direction_stay_within_one_node_type() -> None:
    assert directions(hop("$u <knows> $v")) == [("Knows", Direction.BOTH)]
    assert directions(hop("$u <*> $v", "$u: User $v: User")) == [("Knows", Direction.BOTH), ("Likes", Direction.BOTH)]
    assert match_codes("$u <owns> $t") == ["T22"]
    assert match_codes("$t: Task $u <*> $t") == ["T22"]


def test_a_quoted_name_is_an_edge() -> None:
    assert directions(hop('$t "in" $x', "$u: User $t: Task")) == [("In", Direction.OUT)]


def test_a_self_loop_has_one_variable() -> None:
    found = hop("$u knows $u")
    assert (found.source, found.target) == ("u", "u")


def test_steps_are_bounded() -> None:
    found = hop("$u knows{2,5} $v")
    assert (found.minimum, found.maximum) == (2, 5)
    assert (hop("$u knows $v").minimum, hop("$u owns{1,1} $t").maximum) == (1, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("$u knows{1,} $v", "T15"),
        ("$u knows{0,2} $v", "T15"),
        ("$u knows{3,2} $v", "T15"),
        (f"$u knows{{1,{limits.GRAPH_HOPS_MAX + 1}}} $v", "T15"),
        ("$u owns{1,2} $v", "T15"),
        ("$u $e:knows{1,2} $v", "T23"),
        ("$u $u:knows $v", "T23"),
        ("$u $_:knows $v", "T23"),
        ("$u $e:knows $v $u $e:likes $v", "T23"),
        ("$u wons $v", "T4"),
        ("$t: Team $t knows $v", "T5"),
        ("$a knows $b", "T6"),
    ],
)
def test_mistakes_have_published_codes(text: str, code: str) -> None:
    assert match_codes(text) == [code]


def test_a_mismatch_names_the_edges_that_fit() -> None:
    (finding,) = findings("query q() { match { $u: User $t: Team $u owns $t } return { $u } }")
    assert finding.message == "`owns` leads from `User` to `Task`, but `$u` is a `User` and `$t` is a `Team`"
    assert finding.hint == "edges that fit here: `memberOf`, `leads`"


def test_an_edge_variable_has_the_types_of_its_hop() -> None:
    (variable,) = checked_read("$u: User $u $e:(knows|likes) $v", "$e.since").pattern.edges
    assert [each.name for each in variable.types] == ["Knows", "Likes"]
