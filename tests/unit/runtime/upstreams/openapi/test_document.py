"""Reading OpenAPI documents: what is read, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.runtime.upstreams.openapi.document import ReferenceProblem, read_document
from tests.unit.runtime.upstreams.openapi.documents import document

MINIMAL = b'{"openapi": "3.1.0", "paths": {}}'


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (b'{"swagger": "2.0", "paths": {}}', "OPENAPI_VERSION", "Swagger 2.0"),
        (b'{"openapi": "4.0.0", "paths": {}}', "OPENAPI_VERSION", "4.0.0"),
        (b'{"paths": {}}', "OPENAPI_VERSION", "nothing of its version"),
        (b'{"openapi": "3.1.0"}', "OPENAPI_INVALID", "no `paths`"),
        (b"[1]", "OPENAPI_INVALID", "not an object"),
        (b'{"openapi": ', "OPENAPI_INVALID", "cannot be read"),
        (b"a: [", "OPENAPI_INVALID", "cannot be read"),
        (b"\xff\xfe\x00", "OPENAPI_INVALID", "cannot be read"),
    ],
)
def test_what_is_no_document_is_refused_with_a_reason(text: bytes, code: str, said: str) -> None:
    with pytest.raises(Rejected) as refused:
        read_document(text)
    assert refused.value.code == code
    assert said in refused.value.message
    assert refused.value.hint


def test_a_document_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPENAPI_BYTES_MAX", 10)
    with pytest.raises(Rejected, match="OPENAPI_TOO_LARGE"):
        read_document(MINIMAL)


def test_aliases_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPENAPI_VALUES_MAX", 10_000)
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9))
    with pytest.raises(Rejected, match="OPENAPI_TOO_LARGE"):
        read_document(f"openapi: 3.1.0\npaths: {{}}\nl0: &l0 x\n{levels}\n".encode())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("2026-01-01", "2026-01-01"),
        ("010", 10),
        ("1.5", 1.5),
        ("true", True),
        ("", None),
        ("1:30", "1:30"),
    ],
)
def test_yaml_is_read_with_the_scalars_of_json(written: str, value: Any) -> None:
    read = read_document(f"openapi: 3.0.3\npaths: {{}}\nx-it: {written}\n".encode())
    assert read.root["x-it"] == value


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("https://elsewhere.example/a.json#/x", "leads out of the document"),
        ("other.yaml#/x", "leads out of the document"),
        ("#/components/schemas/Missing", "leads nowhere"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_a_problem(reference: str, said: str) -> None:
    with pytest.raises(ReferenceProblem, match=said):
        document({}).resolved({"$ref": reference})


def test_references_in_a_circle_are_a_problem() -> None:
    circle = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    with pytest.raises(ReferenceProblem, match="circle"):
        document({}, circle).resolved({"$ref": "#/components/schemas/A"})


def test_names_in_references_are_unescaped() -> None:
    read = document({}, {"a/b c": {"type": "string"}})
    assert read.found("#/components/schemas/a~1b%20c") == {"type": "string"}


@pytest.mark.parametrize(
    ("servers", "url"),
    [
        ([{"url": "https://shop.example/v1/"}], "https://shop.example/v1"),
        (
            [{"url": "https://{region}.shop.example", "variables": {"region": {"default": "eu"}}}],
            "https://eu.shop.example",
        ),
        ([{"url": "https://{region}.shop.example"}], None),
        ([{"url": "/v1"}], None),
        ([], None),
    ],
)
def test_the_address_is_the_first_one_that_is_whole(servers: Any, url: str | None) -> None:
    assert document({}, servers=servers).server_url() == url
