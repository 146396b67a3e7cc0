"""The OpenAPI document and the page that is made from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, violations
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import Capability
from penstock.rest.openapi.document import openapi_document
from penstock.rest.openapi.reference_page import reference_page
from tests.unit.rest.conftest import HELLO, Client

Run = Callable[..., None]
OPERATIONS = sorted(builtin_operations(), key=lambda capability: capability.name)
DOCUMENT: dict[str, Any] = openapi_document(OPERATIONS, version="1.2.3", base_path="/api/v0")


def described(name: str) -> dict[str, Any]:
    [found] = [
        operation
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        if operation["operationId"] == name
    ]
    return found  # type: ignore[no-any-return]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_document_is_openapi_3_1() -> None:
    assert [str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []


def test_every_reference_leads_somewhere() -> None:
    for reference in set(references(DOCUMENT)):
        place: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            assert part in place, reference
            place = place[part]


@pytest.mark.parametrize("capability", OPERATIONS, ids=lambda capability: capability.name)
def test_an_operation_is_described_with_its_words_scopes_and_examples(capability: Capability) -> None:
    found = described(capability.name)
    assert found["summary"] == capability.title
    assert found["x-scopes"] == list(capability.governance.scopes)
    assert found["x-mcp"]["name"] == capability.name
    body = found.get("requestBody")
    if body is not None and body["required"] and "application/json" in body["content"]:
        media = body["content"]["application/json"]
        assert media.get("examples"), f"{capability.name} needs an example"


@pytest.mark.parametrize("capability", OPERATIONS, ids=lambda capability: capability.name)
def test_examples_fit_the_schema(capability: Capability) -> None:
    schema = compile_schema(capability.input_schema)
    assert isinstance(schema, CompiledSchema)
    for example in capability.examples:
        assert list(violations(schema, example.arguments)) == []


def test_an_operation_with_two_answers_says_what_comes_with_which_status() -> None:
    answers = described("workflow.execute")["responses"]
    schemas = {status: answers[status]["content"]["application/json"]["schema"] for status in ("202", "200")}
    assert schemas["200"] == {"$ref": "#/components/schemas/ExecutionView"}
    started, waits = schemas["202"]["anyOf"]
    assert started == {"$ref": "#/components/schemas/ExecutionHandle"}
    assert waits["type"] == "object"  # the call waits for approval


def test_what_has_a_version_can_be_asked_for_conditionally() -> None:
    found = described("workflow.get")
    assert "304" in found["responses"]
    assert "If-None-Match" in {parameter["name"] for parameter in found["parameters"]}
    assert "ETag" in found["responses"]["200"]["headers"]
    assert "304" not in described("workflow.list")["responses"]


def test_answers_have_an_etag_where_the_document_says_so(with_client: Run) -> None:
    async def test(client: Client) -> None:
        await client("POST", "workflows/hello/executions", {"execution_id": "one", "sync": True})
        await client("POST", "schemas", {"id": "s", "schema": {"type": "object"}})
        values = {"workflow_id": "hello", "execution_id": "one", "schema_id": "s", "task_id": "done"}
        seen = 0
        for capability in OPERATIONS:
            route = capability.route
            if route is None or route.method != "GET" or capability.output_schema is None:
                continue
            names = re.findall(r"\{(\w+)\}", route.path)
            required = capability.input_schema.get("required")
            if not set(names) <= values.keys() or (isinstance(required, list) and not set(required) <= set(names)):
                continue
            answer = await client("GET", route.path.format(**values).lstrip("/"))
            assert answer.status == 200, (capability.name, answer)
            assert ("etag" in answer.headers) is route.etag, capability.name
            seen += route.etag
        assert seen >= 5

    with_client(test)


def test_a_link_leads_from_what_is_made_to_what_can_be_done_with_it() -> None:
    links = described("workflow.create")["responses"]["201"]["links"]
    assert links["workflow.execute"] == {"$ref": "#/components/links/workflow.execute"}
    link = DOCUMENT["components"]["links"]["workflow.execute"]
    assert link == {"operationId": "workflow.execute", "parameters": {"workflow_id": "$response.body#/id"}}


class Page(HTMLParser):
    """Collects what a page would fetch, and checks that tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.articles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "link", "img", "iframe") or "src" in named:
            self.fetched.append(tag)
        if tag == "article":
            self.articles.append(named["id"] or "")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_lists_every_operation_and_fetches_nothing() -> None:
    text = reference_page(DOCUMENT).decode()
    page = Page()
    page.feed(text)
    assert (page.fetched, page.open) == ([], [])
    assert sorted(page.articles) == [capability.name for capability in OPERATIONS]
    assert "url(" not in text
    assert "@import" not in text


def test_what_is_written_in_a_document_is_shown_and_not_run() -> None:
    document = {**DOCUMENT, "info": {**DOCUMENT["info"], "title": "<script>alert(1)</script>"}}
    text = reference_page(document).decode()
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_page_is_served_with_a_strict_policy(with_client: Run) -> None:
    async def test(client: Client) -> None:
        page = await client("GET", "/docs", key="")
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert (await client("GET", "/openapi.json", key="")).json()["openapi"] == "3.1.0"
        again = await client("GET", "/docs", key="", headers={"If-None-Match": page.headers["etag"]})
        assert again.status == 304

    with_client(test, workflows=[HELLO])


def test_the_page_can_be_turned_off(with_client: Run) -> None:
    async def test(client: Client) -> None:
        assert (await client("GET", "/docs", key="")).status == 404

    with_client(test, docs_enabled=False)
