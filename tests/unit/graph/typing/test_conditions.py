"""Conditions and comparisons: what fits together, and what it means."""

import pytest

from penstock.graph.schema.model import Base, Enum, ListOf, Scalar
from penstock.graph.typing.patterns import (
    All,
    Any,
    Comparator,
    Compare,
    ConstantList,
    ConstantValue,
    ContainsItem,
    ContainsText,
    FieldValue,
    InList,
    IsNullTest,
    MetaField,
    MetaValue,
    Not,
    NowValue,
    ParameterValue,
    StartsWith,
    TextSearch,
    TruthTest,
    TypedCondition,
)
from tests.unit.graph.samples import checked_read, findings, match_codes

HEAD = "$s: String, $i: I32, $f: F64?, $b: Bool, $d: Date, $t: DateTime, $l: [String], $n: [I64]"


def condition(text: str) -> TypedCondition:
    match = f"$u: User $u $e:(knows|likes) $v {text}"
    return checked_read(match, head=HEAD).pattern.conditions[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("$u.handle = $s", Compare),
        ("$u.level = $s", Compare),
        ("$u.age < $f", Compare),
        ("$u.visits >= $u.rating", Compare),
        ("$u.born = $d", Compare),
        ("$u.seen < $t", Compare),
        ("$u.seen < now()", Compare),
        ("$u.active != $b", Compare),
        ("$s = $u.@id", Compare),
        ('"ada" = $u.handle', Compare),
        ("$u.tags contains $s", ContainsItem),
        ("$l contains $u.handle", ContainsItem),
        ('["a"] contains $u.handle', ContainsItem),
        ('$u.bio contains "x"', ContainsText),
        ("$u.level contains $s", ContainsText),
        ("$u.handle starts_with $u.bio", StartsWith),
        ("$u.handle in $l", InList),
        ("$u.age in $n", InList),
        ("$s in $u.tags", InList),
        ("$u.handle not in []", InList),
        ("$u.age is null", IsNullTest),
        ("$f is not null", IsNullTest),
        ("$u.active", TruthTest),
        ("$b", TruthTest),
        ("true", TruthTest),
        ("not $u.active", Not),
        ("$u.active and $b", All),
        ("$u.active or $b", Any),
        ('search($u.bio, "x")', TextSearch),
        ("fuzzy($u.bio, $s, 1)", TextSearch),
        ("match_text($u.bio, $s)", TextSearch),
        ("match_text($u.bio, $s) = true", TextSearch),
    ],
)
def test_conditions_that_fit(text: str, kind: type) -> None:
    assert isinstance(condition(text), kind)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("$u.handle = $i", "T7"),
        ("$u.age = $s", "T7"),
        ('$u.age = "3"', "T7"),
        ("$u.born = $t", "T7"),
        ('$u.born = "2026-01-01"', "T7"),
        ("$u.born < now()", "T7"),
        ("$u.tags = $l", "T7"),
        ("$u.tags = $s", "T7"),
        ("$u.tags contains $i", "T7"),
        ("$u.tags contains $l", "T7"),
        ("$u.age contains $i", "T7"),
        ("$u.age starts_with $s", "T7"),
        ("$u.active < $b", "T7"),
        ("$u = $s", "T7"),
        ("$u.handle in $s", "T7"),
        ('$u.handle in "x"', "T7"),
        ("$u.tags in $l", "T7"),
        ("$u.handle in [1]", "T3"),
        ('$u.level = "boss"', "T3"),
        ('$u.level in ["junior", "boss"]', "T3"),
        ('$u.born = date("2026-02-30")', "T3"),
        ('$u.seen = datetime("yesterday")', "T3"),
        ("$u.nme = $s", "T2"),
        ("$u.@src = $s", "T2"),
        ("$e.weight = $f", "T2"),
        ("$nobody.x = 1", "T6"),
        ("$nobody = 1", "T6"),
        ("$s.x = 1", "T6"),
        ("$e = $s", "T23"),
        ("$u.photo is null", "T24"),
        ("$u.photo = $s", "T24"),
        ("count($u) > 1", "T7"),
        ("1 = 2", "T41"),
        ("$u.age", "T41"),
        ("$s", "T41"),
        ("[1]", "T41"),
        ('"x" is null', "T41"),
        ("search($u.age, $s)", "T19"),
        ("fuzzy($u.bio, $s, 9)", "T19"),
        ("match_text($u.bio, $i)", "T20"),
        ("nearest($u.bio, $s) > 1", "T38"),
        ('search($u.bio, "x") = false', "T38"),
    ],
)
def test_conditions_that_do_not_fit(text: str, code: str) -> None:
    assert match_codes(f"$u $e:(knows|likes) $v {text}", head=HEAD)[:1] == [code]


def test_literals_get_the_type_of_the_other_side() -> None:
    found = condition("$u.rating >= 3")
    assert isinstance(found, Compare)
    assert found.right == ConstantValue(3.0, Scalar(Base.F32))
    found = condition("$u.age < 2.5")
    assert isinstance(found, Compare)
    assert found.right == ConstantValue(2.5, Scalar(Base.F64))
    found = condition('$u.seen > datetime("2026-01-01T01:00:00+01:00")')
    assert isinstance(found, Compare)
    assert found.right == ConstantValue(1767225600000, Scalar(Base.DATE_TIME))
    found = condition('$u.level in ["senior"]')
    assert isinstance(found, InList)
    assert found.items == ConstantList(("senior",), ListOf(Base.STRING))


def test_fields_are_resolved_with_owner_type_and_null() -> None:
    found = condition("$u.age <= $i")
    assert isinstance(found, Compare)
    assert found.comparator is Comparator.LESS_OR_EQUAL
    assert isinstance(found.left, FieldValue)
    assert (found.left.owners, found.left.type, found.left.nullable) == (("User",), Scalar(Base.I32), True)
    assert found.right == ParameterValue("i", Scalar(Base.I32), False)


def test_a_property_of_alternatives_is_one_of_all_of_them() -> None:
    found = condition("$e.kind = $s")
    assert isinstance(found, Compare)
    assert isinstance(found.left, FieldValue)
    assert found.left.owners == ("Knows", "Likes")
    assert found.left.type == Enum(("friend", "rival", "work"))


def test_edges_have_ends_and_a_type() -> None:
    for name in MetaField:
        found = condition(f"$e.{name} = $s")
        assert isinstance(found, Compare)
        assert isinstance(found.left, MetaValue)
        assert found.left.field is name
    found = condition("$u.seen > now()")
    assert isinstance(found, Compare)
    assert found.right == NowValue()


def test_a_text_for_a_day_is_explained() -> None:
    (finding,) = findings('query q() { match { $u: User $u.born = "2026-01-01" } return { $u } }')
    assert finding.hint == 'write date("2026-01-01")'
