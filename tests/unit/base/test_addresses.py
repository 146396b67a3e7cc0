"""Addresses of resources: one form for each, none for what could mean another place than it shows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.addresses import (
    AddressTemplate,
    leads_straight,
    normalised_address,
    own_address,
    read_template,
    stays_in_place,
)

_DOTS = (".", "%2e", "%2E", "%252e", "%25252E", "%u002e", "%25u002e", "\uff0e", "%EF%BC%8E", "\u2024", "\ufe52")
_TWO_DOTS = (
    "\u2025",
    "%E2%80%A5",
    "\ufe30",
    ".\u200b.",
    ".\ufe0f.",
    ".. ",
    "..;a",
    "..%3Ba",
    "...",
    "\uff05\uff12\uff45.",
)
_OVERLONG = ("%c0%ae", "%e0%80%ae", "%f0%80%80%ae", "%25c0%25ae")
_SLASHES = (
    "%2f",
    "%252F",
    "%5c",
    "%255c",
    "\uff0f",
    "%EF%BC%8F",
    "\uff3c",
    "\ufe68",
    "\u2215",
    "\u2044",
    "%u2215",
    "\u2105",
)
_UPWARD = tuple(
    {*(f"{one}{other}" for one in (*_DOTS, *_OVERLONG) for other in (*_DOTS, *_OVERLONG)), *_DOTS, *_TWO_DOTS}
)


@pytest.mark.parametrize(
    ("given_text", "normal"),
    [
        ("notes://daily", "notes://daily"),
        ("NOTES://daily", "notes://daily"),
        ("notes://%64aily/a%2db", "notes://daily/a-b"),
        ("notes://day/%c3%a4", "notes://day/%C3%A4"),
        ("urn:isbn:123", "urn:isbn:123"),
        ("https://shop.example/a?b=c", "https://shop.example/a?b=c"),
    ],
)
def test_an_address_has_one_form(given_text: str, normal: str) -> None:
    assert normalised_address(given_text) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "daily",
        "/etc/passwd",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "data:text/html,hello",
        "javascript:alert(1)",
        "notes://a/../b",
        "notes://a/./b",
        "notes://a/%2e%2E/b",
        "notes://a/%2e./b",
        "notes://a%2Fb",
        "notes://a%5cb",
        "notes://a\\b",
        "notes://a%00b",
        "notes://a%0Ab",
        "notes://a b",
        "notes://ä",
        "notes://%ff",
        "notes://a%2",
        "notes://a#part",
        "notes://somebody@host/a",
        "notes://{a}",
        "notes://" + "a" * 3_000,
    ],
)
def test_what_could_mean_another_place_is_no_address(text: str) -> None:
    assert normalised_address(text) is None


def test_the_variables_of_a_template_are_pieces_of_an_address() -> None:
    template = read_template("notes://{day}/of/{name}", "notes")
    assert isinstance(template, AddressTemplate)
    assert template.variables == ("day", "name")
    assert template.values("notes://monday/of/ad%C3%A4") == {"day": "monday", "name": "adä"}
    assert template.values("notes://monday/of/a/b") is None
    assert template.values("notes://monday/of/") is None
    assert template.values("notes://monday/of/a?b") is None


def test_an_address_without_variables_is_only_itself() -> None:
    template = read_template("Notes://da%69ly", "notes")
    assert isinstance(template, AddressTemplate)
    assert template.values("notes://daily") == {}
    assert template.values("notes://daily/more") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("notes://{day-name}", "is not a variable"),
        ("notes://{}", "is not a variable"),
        ("notes://{a}/{a}", "twice"),
        ("notes://{a}{b}", "slash"),
        ("notes://{a}-{b}", "slash"),
        ("{a}://daily", "scheme"),
        ("notes://{a", "not an address"),
        ("daily", "not an address"),
        ("file:///{name}", "not an address"),
        ("penstock://executions/{id}", "server's own"),
        ("PENSTOCK://executions/{id}", "server's own"),
        ("penstock://resources/notes_of_others", "server's own"),
    ],
)
def test_a_template_that_cannot_be_one_says_why(text: str, problem: str) -> None:
    read = read_template(text, "notes")
    assert isinstance(read, str)
    assert problem in read


def test_a_workflow_has_an_address_of_its_own() -> None:
    template = read_template(own_address("my notes", ("day",)), "my notes")
    assert isinstance(template, AddressTemplate)
    assert template.values("penstock://resources/my%20notes/monday") == {"day": "monday"}


@given(st.text(min_size=1, max_size=20))
def test_a_value_comes_back_as_it_was_or_not_at_all(value: str) -> None:
    template = read_template("notes://{name}/text", "notes")
    assert isinstance(template, AddressTemplate)
    try:
        address = normalised_address(f"notes://{quote(value, safe='')}/text")
    except UnicodeEncodeError:
        return
    assert address is None or template.values(address) == {"name": value}


@given(st.text(st.characters(categories=("L", "N")), min_size=1, max_size=20))
def test_a_value_of_letters_and_digits_comes_back(value: str) -> None:
    template = read_template("notes://{name}/text", "notes")
    assert isinstance(template, AddressTemplate)
    address = normalised_address(f"notes://{quote(value, safe='')}/text")
    assert address is not None, value
    assert template.values(address) == {"name": value}


@pytest.mark.parametrize(
    "value", ["100%", "50% off", "a.b", ".config", "v1..v2", "a;b", "ä", "½", "a%2", "group/project"]
)
def test_a_value_that_only_has_such_signs_stays_in_place(value: str) -> None:
    assert stays_in_place(value)
    assert leads_straight(f"notes://a/{quote(value.replace('/', '-'), safe='')}")


def test_no_spelling_of_two_dots_leads_straight() -> None:
    for step in _UPWARD:
        for address in (f"notes://public/{step}/secret", f"notes://public/a?/{step}/secret", f"notes://a#/{step}/b"):
            assert not leads_straight(address), address
        assert normalised_address(f"notes://public/{quote(step, safe='%;')}/secret") is None, step
        assert not stays_in_place(step), step
        assert not stays_in_place(f"{step}/{step}/secret"), step


def test_no_spelling_of_a_slash_is_part_of_a_name() -> None:
    for slash in _SLASHES:
        for name in (f"a{slash}b", f"..{slash}..{slash}secret"):
            assert not leads_straight(f"notes://public/{name}"), name
            assert normalised_address(f"notes://public/{quote(name, safe='%')}") is None, name
        # The sign for "care of" is letters around a slash.
        assert not stays_in_place(f"a{slash}..{slash}secret") or slash == "\u2105", slash


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _read_by_a_careless_server(text: str, times: int) -> Iterator[str]:
    """Every text that a server gets that decodes and folds an address again and again, in either order."""
    for first, then in ((unquote, _fold), (_fold, unquote)):
        found = text
        for _ in range(times):
            yield (found := first(found))
            yield (found := then(found))


@given(
    st.lists(
        st.sampled_from(
            (*_DOTS, *_TWO_DOTS, *_SLASHES, "/", "%", "25", "2e", "\uff12", "\uff45", "u002e", "a", ";", " ", "public")
        ),
        max_size=8,
    ).map("".join)
)
def test_what_is_let_through_never_leads_above_its_place(text: str) -> None:
    for value, is_safe in ((text, stays_in_place(text)), (quote(text, safe="%/"), leads_straight(f"notes://a/{text}"))):
        if is_safe:
            read = list(_read_by_a_careless_server(value, 8))
            assert not any(piece in (".", "..") for plain in read for piece in re.split(r"[/\\]", plain)), (value, read)


def test_a_value_that_never_comes_to_rest_is_refused_at_once() -> None:
    assert not stays_in_place("%" + "25" * 100_000)
    assert not leads_straight("notes://a/%" + "25" * 100_000)


@given(st.text(max_size=60))
def test_no_text_breaks_it_and_what_is_normal_stays(text: str) -> None:
    for candidate in (text, f"notes://{text}"):
        normal = normalised_address(candidate)
        assert normal is None or normalised_address(normal) == normal
        read_template(candidate, "notes")
        assert leads_straight(candidate) in (True, False)
        assert stays_in_place(candidate) in (True, False)
