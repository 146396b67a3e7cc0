"""Blocks: variables, types, scopes, and blocks inside blocks."""

from penstock.graph.schema.model import Enum
from penstock.graph.typing.patterns import (
    BlockExists,
    BlockValue,
    Compare,
    ConstantValue,
    ContainsItem,
    FieldValue,
    ParameterValue,
)
from tests.unit.graph.samples import checked_read, match_codes


def test_a_binding_may_stand_behind_the_traversal_that_needs_it() -> None:
    pattern = checked_read("$u owns $t $t blocks $s $u: User").pattern
    assert [(each.name, each.type.name) for each in pattern.nodes] == [("u", "User"), ("t", "Task"), ("s", "Task")]


def test_types_spread_over_several_traversals_in_any_order() -> None:
    pattern = checked_read("$b blocks $c $a blocks $b $u owns $a $u: User").pattern
    assert {each.name: each.type.name for each in pattern.nodes} == dict.fromkeys("bca", "Task") | {"u": "User"}


def test_each_anonymous_node_is_a_variable_of_its_own() -> None:
    read = checked_read("$u: User $u knows $_ $u owns $_")
    assert [(each.type.name, each.anonymous) for each in read.pattern.nodes] == [
        ("User", False),
        ("User", True),
        ("Task", True),
    ]
    names = [each.name for each in read.pattern.nodes]
    assert len(set(names)) == 3
    assert [(hop.source, hop.target) for hop in read.pattern.hops] == [("u", names[1]), ("u", names[2])]
    assert read.tie_break == tuple(names)


def test_properties_in_braces_are_conditions() -> None:
    match = '$u: User { handle: $h, tags: $t, level: "senior" }'
    first, second, third = checked_read(match, head="$h: String, $t: String").pattern.conditions
    assert isinstance(first, Compare)
    assert isinstance(first.right, ParameterValue)
    assert isinstance(second, ContainsItem)
    assert isinstance(third, Compare)
    assert third.right == ConstantValue("senior", Enum(("junior", "senior")))


def test_a_list_property_in_braces_takes_a_single_value_only() -> None:
    assert match_codes("$v: User { tags: $t }", head="$t: [String]") == ["T7"]
    assert match_codes('$v: User { tags: ["a"] }') == ["T7"]


def test_binding_a_variable_again_adds_conditions() -> None:
    pattern = checked_read("$u: User { age: 3 } $u: User { age: 4 }").pattern
    assert len(pattern.nodes) == 1
    assert len(pattern.conditions) == 2
    assert match_codes("$u: Task") == ["T50"]


def test_a_block_knows_the_variables_around_it_and_lists_them() -> None:
    pattern = checked_read('$u: User not { $u owns $t $t blocks $s not { $s "in" $x $x leads $u } }').pattern
    (outer,) = pattern.conditions
    assert isinstance(outer, BlockExists)
    assert outer.negated
    assert outer.pattern.outer == ("u",)
    assert [each.name for each in outer.pattern.nodes] == ["t", "s"]
    (inner,) = outer.pattern.conditions
    assert isinstance(inner, BlockExists)
    assert inner.pattern.outer == ("s", "u")


def test_variables_of_a_block_are_unknown_outside_of_it() -> None:
    assert match_codes('exists { $u owns $t } $t.title = "x"') == ["T6"]


def test_a_block_has_to_refer_to_something_outside() -> None:
    assert match_codes("not { $x: User }") == ["T9"]
    assert match_codes("exists { $x: User }") == ["T39"]
    assert match_codes("count { $x: User } > 1") == ["T39"]
    assert match_codes("exists { $x: User { handle: $h } }", head="$h: String") == ["T39"]


def test_blocks_have_values() -> None:
    pattern = checked_read("$u: User count { $u knows $x } > 2 sum($k.weight) { $u $k:knows $_ } >= 1").pattern
    first, second = pattern.conditions
    assert isinstance(first, Compare)
    assert isinstance(first.left, BlockValue)
    assert (first.left.function, first.left.argument) == ("count", None)
    assert isinstance(second, Compare)
    assert isinstance(second.left, BlockValue)
    assert isinstance(second.left.argument, FieldValue)
    (third,) = checked_read('$u: User $v: User { handle: "x" } sum($v.age) { $u knows $_ } > 1').pattern.conditions[1:]
    assert isinstance(third, Compare)
    assert isinstance(third.left, BlockValue)
    assert third.left.pattern.outer == ("u", "v")
    assert match_codes("sum($x.handle) { $u knows $x } > 1") == ["T40"]
    assert match_codes("count { $u knows $_ } = $s", head="$s: String") == ["T40"]
    assert match_codes("count { $u knows $_ } starts_with 1") == ["T40"]
    assert match_codes("1 < count { $u knows $_ }") == ["T40"]


def test_a_variable_is_no_parameter_and_has_no_reserved_name() -> None:
    assert match_codes("$h: User", head="$h: String") == ["T50"]
    assert match_codes("$__x: User") == ["T49"]
    assert match_codes("$_: User") == ["T6"]


def test_one_mistake_has_one_finding() -> None:
    assert match_codes("$x: Usr $x knows $y $y.age = 3 $x.age = 4 $u $e:konws $z $e.since is null $z.age = 1") == [
        "T1",
        "T4",
    ]
