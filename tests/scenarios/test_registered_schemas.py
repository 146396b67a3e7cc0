"""Schemas that workflows and tools refer to by name: filled in when they are stored, unchanged by what comes later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.app.settings.model import Settings
from penstock.cli.project.files import load_project
from penstock.definitions.schemas.references import content_hash
from penstock.definitions.validate import check_source
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.pipeline import RefusedCall
from tests.unit.operations.conftest import Caller, OpenGate, open_caller

__all__ = ["open_caller"]  # a fixture

pytestmark = pytest.mark.anyio
ORDER: dict[str, Any] = {"type": "object", "required": ["order_id"], "properties": {"order_id": {"type": "string"}}}
LARGER: dict[str, Any] = {**ORDER, "required": ["order_id", "amount"]}
SOURCE = """\
penstock: v1
name: take
input:
  type: object
  properties:
    order: {$ref: "schema:order@1"}
nodes:
  - {id: done, type: end, output: "${ .input.order.order_id }"}
"""


def document(reference: str, **more: Any) -> dict[str, Any]:
    nodes = [{"id": "done", "type": "end", "output": "${ .input.order_id }"}]
    return {"penstock": "v1", "name": "take", "input": {"$ref": reference}, "nodes": nodes, **more}


async def outcome(caller: Caller, given: Any) -> str:
    """The status of a run with an input, or the code of its refusal."""
    found = await caller.outcome("workflow.execute", workflow_id="take", input=given, sync=True)
    if isinstance(found, RefusedCall):
        return found.error.code
    assert isinstance(found.reply, Reply)
    return str(found.reply.value.status)


async def test_a_stored_workflow_keeps_the_version_that_it_was_stored_with(open_caller: OpenGate) -> None:
    async with asyncio.timeout(60), open_caller() as caller:
        made = await caller.call("schema.create", id="order", schema=ORDER)
        assert (made["version"], made["versions"]) == (1, [1])
        stored = await caller.call("workflow.create", document=document("schema:order"))
        assert stored["input_schema"] == {"$comment": f"schema:order@1 sha256:{content_hash(ORDER)}", **ORDER}
        changed = await caller.call("schema.update", schema_id="order", schema=LARGER)
        assert (changed["version"], changed["versions"]) == (2, [1, 2])
        assert await outcome(caller, {"order_id": "A-1"}) == "completed"
        again = await caller.call("workflow.update", workflow_id="take", document=document("schema:order@1"))
        assert again["hash"] == stored["hash"]
        newer = await caller.call("workflow.update", workflow_id="take", document=document("schema:order"))
        assert newer["input_schema"]["required"] == ["order_id", "amount"]
        assert await outcome(caller, {"order_id": "A-1"}) == "INPUT_INVALID"
        await caller.call("schema.delete", schema_id="order")
        assert await outcome(caller, {"order_id": "A-1", "amount": 1}) == "completed"


async def test_versions_stay_readable_and_equal_content_makes_none(open_caller: OpenGate) -> None:
    async with asyncio.timeout(60), open_caller() as caller:
        await caller.call("schema.create", id="order", schema=ORDER)
        same = await caller.call("schema.update", schema_id="order", schema=ORDER, title="Order")
        assert (same["version"], same["title"]) == (1, "Order")
        await caller.call("schema.update", schema_id="order", schema=LARGER)
        first = await caller.call("schema.get_version", schema_id="order", version=1)
        assert (first["schema"], first["ref"], first["hash"]) == (ORDER, "schema:order@1", content_hash(ORDER))
        missing = await caller.refusal("schema.get_version", schema_id="order", version=3)
        assert missing.code == "SCHEMA_VERSION_NOT_FOUND"


async def test_the_oldest_versions_go_unless_a_workflow_has_them(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.operations.registries.schemas.SCHEMA_VERSIONS_MAX", 2)
    async with asyncio.timeout(60), open_caller() as caller:
        await caller.call("schema.create", id="order", schema=ORDER)
        await caller.call("workflow.create", document=document("schema:order@1"))
        for number in range(2, 5):
            await caller.call("schema.update", schema_id="order", schema={**ORDER, "maxProperties": number})
        assert (await caller.call("schema.get", schema_id="order"))["versions"] == [1, 3, 4]
        for version, name in ((3, "third"), (4, "fourth")):
            await caller.call("workflow.create", document=document(f"schema:order@{version}") | {"name": name})
        full = await caller.refusal("schema.update", schema_id="order", schema={**ORDER, "maxProperties": 9})
        assert full.code == "SCHEMA_VERSIONS_FULL"


async def test_a_reference_that_leads_nowhere_is_found_with_its_place(open_caller: OpenGate) -> None:
    async with asyncio.timeout(60), open_caller() as caller:
        await caller.call("schema.create", id="orders", schema=ORDER)
        refused = await caller.refusal("workflow.create", source=SOURCE)
        assert refused.code == "INVALID_DOCUMENT"
        checked = await caller.call("workflow.validate", source=SOURCE)
        [finding] = checked["findings"]
        assert (finding["code"], finding["line"]) == ("SCHEMA_UNKNOWN", 6)
        assert finding["path"] == "/input/properties/order/$ref"
        assert finding["hint"] == "did you mean `orders`?"
        await caller.call("schema.create", id="order", schema=ORDER)
        assert (await caller.call("workflow.validate", source=SOURCE))["findings"] == []
        made = await caller.call("workflow.create", source=SOURCE)
        assert made["input_schema"]["properties"]["order"] == {"$ref": "#/$defs/schema:order@1"}
        other = await caller.new_caller("*", tenant="elsewhere")
        assert (await other.refusal("workflow.create", source=SOURCE)).code == "INVALID_DOCUMENT"


async def test_tools_and_schemas_may_refer_to_schemas(open_caller: OpenGate) -> None:
    async with asyncio.timeout(60), open_caller() as caller:
        await caller.call("schema.create", id="order", schema=ORDER)
        tool = await caller.call("tool.create", id="t", kind="step", name="s", input_schema={"$ref": "schema:order"})
        assert tool["input_schema"]["required"] == ["order_id"]
        listed = {"type": "array", "items": {"$ref": "schema:order@1"}}
        await caller.call("schema.create", id="orders", schema=listed)
        await caller.call(
            "workflow.create", document={**document("schema:orders@1"), "nodes": [{"id": "e", "type": "end"}]}
        )
        assert await outcome(caller, [{"order_id": "A-1"}]) == "completed"
        assert await outcome(caller, [{}]) == "INPUT_INVALID"
        unknown = await caller.refusal("schema.create", id="x", schema={"$ref": "schema:nothing@1"})
        assert unknown.code == "SCHEMA_INVALID"
        await caller.call("schema.create", id="other", schema={"$id": "https://example.com/other", "type": "string"})
        fixed = await caller.call("workflow.validate", document=document("schema:other@1"))
        assert "`$id`" in fixed["findings"][0]["message"]


def test_without_a_server_a_folder_of_schemas_is_looked_at(tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    file = flows / "take.yaml"
    file.write_text(SOURCE)
    [alone] = check_source(SOURCE, file=str(file)).findings
    assert (alone.code, alone.position and alone.position.line) == ("SCHEMA_NOT_RESOLVED", 6)

    def loaded() -> Any:
        [found], _ = load_project([(str(file), SOURCE)], Settings())
        return found

    assert [finding.code for finding in loaded().findings] == ["SCHEMA_NOT_RESOLVED"]
    (tmp_path / "schemas").mkdir()
    [unknown] = loaded().findings
    assert (unknown.code, unknown.position.line) == ("SCHEMA_UNKNOWN", 6)
    (tmp_path / "schemas" / "order@1.yaml").write_text("type: object\nrequired: [order_id]\n")
    found = loaded()
    assert found.findings == ()
    assert found.workflow.input_schema_json["properties"]["order"] == {"$ref": "#/$defs/schema:order@1"}


async def test_a_signed_document_is_not_changed(open_caller: OpenGate) -> None:
    signed = document("schema:order", signature={"algorithm": "ed25519", "key_id": "k", "value": "AA=="})
    async with asyncio.timeout(60), open_caller() as caller:
        await caller.call("schema.create", id="order", schema=ORDER)
        found = await caller.call("workflow.validate", document=signed)
        codes = {finding["code"] for finding in found["findings"]}
        assert "SCHEMA_NOT_RESOLVED" in codes
