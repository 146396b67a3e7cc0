"""A request as policies see it: one spelling of each host and path, and no secrets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.runtime.executors.http.requests import plan_request, request_action
from tests.unit.runtime.executors.calls import call_of


def facts_of(url: str, *, hidden: tuple[str, ...] = ()) -> tuple[str, object, object, object]:
    call = replace(call_of("http", {"method": "post"}, {"url": url, "query": {"key": "hush"}}), hidden=hidden)
    action = request_action(call, plan_request(call.activity).request)
    assert action.facts["host"] == action.resource
    assert action.facts["method"] == "POST"
    assert "hush" not in str(action.facts)
    return action.resource, action.facts["scheme"], action.facts["port"], action.facts["path"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://Example.COM/Orders", ("example.com", "https", 443, "/Orders")),
        ("https://example.com./a%2Fb", ("example.com", "https", 443, "/a/b")),
        ("http://example.com:80", ("example.com", "http", 80, "/")),
        ("http://example.com:8080/x/../%61dmin", ("example.com", "http", 8080, "/admin")),
        ("https://bücher.example/", ("xn--bcher-kva.example", "https", 443, "/")),
        ("http://[::1]:9/", ("::1", "http", 9, "/")),
    ],
)
def test_a_host_and_a_path_have_one_spelling(url: str, told: tuple[object, ...]) -> None:
    assert facts_of(url) == told


def test_a_secret_in_a_host_name_is_masked_although_hosts_are_in_lower_case() -> None:
    host, _, _, path = facts_of("https://T0ken-A.example.com/hooks/T0KEN-a", hidden=("T0ken-A",))
    assert "t0ken" not in f"{host}{path}".lower()


def test_a_secret_in_the_address_is_masked() -> None:
    host, _, _, path = facts_of("https://t0ken.example.com/hooks/t0ken", hidden=("t0ken",))
    assert (host, path) == ("***.example.com", "/hooks/***")
