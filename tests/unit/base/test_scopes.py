"""One grammar of scopes: what is written as one, what covers what, and which one was probably meant."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.scopes import EVERYTHING, Scope, common_scopes, is_scope, likely_scope, parse_scope, scope_allows

words = st.text(string.ascii_lowercase, min_size=1, max_size=5)
parts = st.text(string.ascii_letters + string.digits, min_size=1, max_size=5)
tails = st.lists(st.tuples(st.sampled_from(".:"), parts).map("".join), max_size=3).map("".join)
scopes = st.tuples(words, tails).map("".join)
wildcards = st.one_of(st.just(EVERYTHING), st.tuples(scopes, st.sampled_from([".*", ":*"])).map("".join))


@pytest.mark.parametrize(
    ("granted", "required", "is_allowed"),
    [
        (["*"], "workflow:execute", True),
        (["workflow:*"], "workflow:execute", True),
        (["workflow:*"], "workflow:execute:refund", True),
        (["workflow:execute"], "workflow:execute", True),
        (["audit:read", "workflow:execute"], "workflow:execute", True),
        ([], "workflow:execute", False),
        (["workflow"], "workflow:execute", False),
        (["workflow:execute"], "workflow:execute:refund", False),
        (["workflow:execute:refund"], "workflow:execute", False),
        (["workflow:*"], "workflow", False),
        (["workflow:*"], "workflows:read", False),
        (["work*"], "workflow:read", False),
        (["workflow:exec*"], "workflow:execute", False),
        (["Workflow:*"], "workflow:execute", False),
        (["workflow:*"], "workflow:*", True),
        (["workflow:*"], "workflow:execute:*", True),
        (["workflow:*"], "*", False),
        (["workflow:execute"], "workflow:*", False),
        (["*"], "*", True),
        (["orders.*"], "orders.refund", True),
        (["orders.*"], "orders:refund", False),
        (["orders:*"], "orders.refund", False),
        (["orders.refund"], "orders:refund", False),
        (["orders.refund.*"], "orders.refund", False),
        (["approve:*"], "approve:a group that no document can have any more", True),
    ],
)
def test_a_scope_covers_what_it_says(granted: list[str], required: str, is_allowed: bool) -> None:
    assert scope_allows(granted, required) is is_allowed


@given(st.lists(scopes), scopes)
def test_more_scopes_never_allow_less(granted: list[str], required: str) -> None:
    assert scope_allows([*granted, required], required)
    if scope_allows(granted, required):
        assert scope_allows([*granted, "other"], required)


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "workflow",
        "workflow:*",
        "workflow:execute",
        "workflow:execute:Refund.v2",
        "a-b:c_d:*",
        "a:1",
        "a.b",
        "a.b:c.*",
        "a.*",
    ],
)
def test_a_scope_is_words_with_dots_and_colons_between_them(text: str) -> None:
    assert is_scope(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "a:",
        ":a",
        "a::b",
        "**",
        "*:a",
        "a:*:b",
        "a*",
        "a:b*",
        "A:b",
        "a b",
        "a:b\n",
        "a:ä",
        "1a",
        "a:-b",
        "a.",
        ".a",
        "a..b",
        "a.:b",
        "a.b*",
    ],
)
def test_anything_else_is_no_scope(text: str) -> None:
    assert not is_scope(text)


def test_a_scope_has_an_end() -> None:
    assert is_scope("a" * limits.SCOPE_CHARACTERS_MAX)
    assert not is_scope("a" * (limits.SCOPE_CHARACTERS_MAX + 1))


@given(scopes)
def test_a_scope_that_is_built_of_words_is_one(scope: str) -> None:
    assert is_scope(scope)
    assert is_scope(f"{scope}:*")
    assert is_scope(f"{scope}.*")


@given(st.one_of(scopes, wildcards))
def test_a_scope_is_read_back_from_its_text(text: str) -> None:
    assert parse_scope(text) == Scope(text)


@given(st.text(string.ascii_letters + string.digits + ".:*_- ", max_size=12))
def test_only_what_the_grammar_says_is_a_scope(text: str) -> None:
    body, star = (text[:-2], True) if text[-2:] in (".*", ":*") else (text, False)
    joined = body.replace(".", ":").split(":")
    first, rest = joined[0], joined[1:]
    letters, inner = set(string.ascii_lowercase), set(string.ascii_letters + string.digits)
    fits = bool(first) and first[0] in letters and set(first) <= letters | set(string.digits + "_-")
    fits = fits and all(part and part[0] in inner and set(part) <= inner | set("_-") for part in rest)
    assert is_scope(text) is (fits or (text == EVERYTHING and not star))


@given(scopes, wildcards, wildcards)
def test_what_covers_a_wildcard_covers_all_that_it_covers(scope: str, inner: str, outer: str) -> None:
    if scope_allows([outer], inner) and scope_allows([inner], scope):
        assert scope_allows([outer], scope)


@given(scopes, st.sampled_from([".", ":"]), parts)
def test_a_wildcard_covers_what_goes_on_after_its_separator_and_nothing_else(
    scope: str, separator: str, more: str
) -> None:
    wildcard = f"{scope}{separator}*"
    assert scope_allows([wildcard], f"{scope}{separator}{more}")
    assert not scope_allows([wildcard], scope)
    assert not scope_allows([wildcard], f"{scope}{more}")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("workflow:rnu", "workflow:run"),
        ("workflow.run", "workflow:run"),
        ("orders:refund", "orders.refund"),
        ("workflow:run", None),
        ("something:else", None),
    ],
)
def test_a_scope_that_was_probably_meant_is_suggested(text: str, meant: str | None) -> None:
    assert likely_scope(text, ["workflow:run", "execution:read", "orders.refund"]) == meant


some = st.frozensets(st.one_of(scopes, wildcards), max_size=4)


@given(some, some, st.one_of(scopes, wildcards))
def test_common_scopes_cover_what_both_cover(first: frozenset[str], second: frozenset[str], required: str) -> None:
    for wanted in (required, *first, *second):
        both = scope_allows(first, wanted) and scope_allows(second, wanted)
        assert scope_allows(common_scopes(first, second), wanted) is both
