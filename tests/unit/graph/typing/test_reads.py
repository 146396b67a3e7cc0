"""Columns, groups, order and limit."""

import pytest

from penstock.graph.schema.model import Base, Scalar
from penstock.graph.typing.model import Order
from penstock.graph.typing.patterns import (
    AggregateValue,
    EntityKind,
    MetaField,
    MetaValue,
    NodeObjectType,
    RankFusion,
    RankValue,
)
from tests.unit.graph.samples import checked_read, codes

DOCS = "match { $d: Doc }"


def read_codes(returns: str, tail: str = "", head: str = "") -> list[str]:
    match = "$u: User $u $e:knows $v $d: Doc $d.title = $u.handle"
    return codes(f"query q({head}) {{ match {{ {match} }} return {{ {returns} }} {tail} }}")


def test_columns_have_names_types_and_say_whether_they_may_be_null() -> None:
    read = checked_read(
        "$u: User $u $e:knows $v", "$u.handle, $u.age as years, $u, $e.@src, now(), $s, 1 as one", head="$s: String?"
    )
    assert [each.name for each in read.columns] == ["u.handle", "years", "u", "e.@src", "now", "s", "one"]
    assert [each.nullable for each in read.columns] == [False, True, False, False, False, True, False]
    whole = read.columns[2].type
    assert isinstance(whole, NodeObjectType)
    assert "photo" not in [each.name for each in whole.properties]
    assert read.tie_break == ("u", "v", "e")
    assert not read.aggregated


def test_a_whole_node_has_neither_blobs_nor_vectors() -> None:
    whole = checked_read("$u: Doc", "$u").columns[0].type
    assert isinstance(whole, NodeObjectType)
    assert [each.name for each in whole.properties] == ["slug", "title", "body", "tags"]


def test_aggregates_group_by_the_other_columns() -> None:
    read = checked_read(
        "$u: User $u memberOf $t",
        "$t.name, count($u) as people, avg($u.age) as mean, sum($u.visits), min($u.born), max($u.level) as top, "
        "count($u.bio) as bios, count($t.@id) as ids, $t",
    )
    assert read.aggregated
    assert read.group_by == (0, 8)
    assert read.tie_break == ()
    types = [each.type for each in read.columns if isinstance(each.expression, AggregateValue)]
    assert types[:3] == [Scalar(Base.I64), Scalar(Base.F64), Scalar(Base.F64)]
    assert types[3] == Scalar(Base.DATE)
    assert [each.nullable for each in read.columns][1:4] == [False, True, True]
    assert read.columns[3].name == "u.visits"


def test_the_order_repeats_columns_or_names_them() -> None:
    read = checked_read("$u: User", "$u.handle as h, $u.age", tail="order { h desc, $u.age, $u.born } limit 3")
    assert [(each.column, each.descending) for each in read.order] == [(0, True), (1, False), (None, False)]
    assert read.limit == 3


def test_a_node_is_ordered_by_its_identifier() -> None:
    (order,) = checked_read("$u: User", "$u as person", tail="order { person desc }").order
    assert order == Order(MetaValue(variable="u", kind=EntityKind.NODE, field=MetaField.ID), True, 0)


def test_rankings_have_the_best_first() -> None:
    tail = 'order { nearest($u.embedding, $v), bm25($u.body, "x") } limit 5'
    read = checked_read("$u: Doc", "$u.slug, nearest($u.embedding, $v) as distance", head="$v: Vector(3)", tail=tail)
    assert [each.descending for each in read.order] == [False, True]
    assert read.order[0].column == 1
    (order,) = checked_read("$u: Doc", "$u.slug", tail='order { bm25($u.body, "x") desc }').order
    assert order.descending
    fused = "order { rrf(nearest($u.embedding, [1, 2.5, 3]), bm25($u.body, $q)) } limit 5"
    (order,) = checked_read("$u: Doc", "$u.slug", head="$q: String", tail=fused).order
    assert isinstance(order.expression, RankFusion)
    assert order.expression.k == 60
    assert order.descending
    assert isinstance(order.expression.ranks[0], RankValue)


@pytest.mark.parametrize(
    ("returns", "tail", "code"),
    [
        ("$u.nme", "", "T2"),
        ("$nobody", "", "T6"),
        ("$e", "", "T23"),
        ("count($e)", "", "T23"),
        ("$u.photo", "", "T24"),
        ("count($u.photo)", "", "T24"),
        ("sum($u.handle)", "", "T8"),
        ("avg($u.tags)", "", "T8"),
        ("min($u.tags)", "", "T8"),
        ("sum($u)", "", "T8"),
        ("count(1)", "", "T8"),
        ("count($u), $u.tags", "", "T9"),
        ("count($u), now()", "", "T9"),
        ("$u.age, $u.age", "", "T25"),
        ("$u.age as x, $u.born as x", "", "T25"),
        ('"x"', "", "COLUMN_NAME"),
        ("[1] as x", "", "T41"),
        ('date("2026-13-01") as x', "", "T3"),
        ('search($u.bio, "x") as x', "", "T35"),
        ('bm25($u.bio, "x")', "", "T33"),
        ('rrf(bm25($u.bio, "x"), bm25($u.bio, "y"))', "", "T37"),
        ("$u.age", "order { years }", "T42"),
        ("count($u)", "order { $u.age }", "T42"),
        ("$u.age", "order { count($u) }", "T42"),
        ("count($u)", 'order { bm25($u.bio, "x") }', "T32"),
        ("$u.age", "order { $u.tags }", "ORDER_TYPE"),
        ("$u.age", "order { nearest($d.embedding, [1, 2, 3]) desc } limit 3", "RANK_DIRECTION"),
        ("$u.age", "order { nearest($d.embedding, [1, 2, 3]) }", "T17"),
        ("$u.age", 'order { rrf(bm25($u.bio, "x"), bm25($u.bio, "y")) }', "T21"),
        ("$u.age", 'order { rrf(bm25($u.bio, "x"), bm25($u.bio, "y"), 0) } limit 3', "T21"),
        ("$u.age", "order { nearest($d.embedding, [1, 2]) } limit 3", "T15"),
        ("$u.age", 'order { nearest($d.embedding, "x") } limit 3', "T15"),
        ("$u.age", "order { nearest($d.body, [1, 2, 3]) } limit 3", "T15"),
        ("$u.age", 'order { bm25($u.age, "x") } limit 3', "T20"),
        ("$u.age", "limit 0", "LIMIT"),
    ],
)
def test_mistakes_have_published_codes(returns: str, tail: str, code: str) -> None:
    assert read_codes(returns, tail) == [code]


def test_texts_are_not_embedded() -> None:
    assert read_codes("$u.age", "order { nearest($d.embedding, $q) } limit 3", "$q: String") == ["T15"]
