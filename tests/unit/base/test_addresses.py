"""Addresses of resources: one form for each, none for what could mean another place than it shows."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.addresses import AddressTemplate, normalised_address, own_address, read_template


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
        ("notes://{day-name}", "no variable"),
        ("notes://{}", "no variable"),
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
    if address is None:
        assert value in (".", "..") or any(sign in "/\\" or not sign.isprintable() for sign in value)
    else:
        assert template.values(address) == {"name": value}


@given(st.text(max_size=60))
def test_no_text_breaks_it_and_what_is_normal_stays(text: str) -> None:
    for candidate in (text, f"notes://{text}"):
        normal = normalised_address(candidate)
        assert normal is None or normalised_address(normal) == normal
        read_template(candidate, "notes")
