"""Signed workflows: by whatever way a workflow comes in or is started, the operator's keys decide."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.cli.main import app
from penstock.definitions.signature import public_key_spki, sign_definition
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.signatures import SignatureMode, SignatureTrust

pytestmark = pytest.mark.anyio
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
GREET: JsonObject = {
    "penstock": "v1",
    "name": "greet",
    "nodes": [{"id": "done", "type": "end", "output": "hello"}],
}
CHANGED: JsonObject = {**GREET, "nodes": [{"id": "done", "type": "end", "output": "evil"}]}
PARENT: JsonObject = {
    "penstock": "v1",
    "name": "parent",
    "nodes": [{"id": "child", "type": "subworkflow", "workflow": "greet"}, {"id": "done", "type": "end"}],
}


def signed(document: JsonObject, key: Ed25519PrivateKey = KEY, key_id: str = "release") -> JsonObject:
    return sign_definition(document, key_id=key_id, private_key=key)


def tampered(document: JsonObject) -> JsonObject:
    return {**signed(document), "description": "changed after signing"}


BAD = {
    "SIGNATURE_REQUIRED": GREET,
    "SIGNATURE_INVALID": tampered(GREET),
    "SIGNER_NOT_TRUSTED": signed(GREET, STRANGER, "stranger"),
}


@dataclass
class Server:
    gate: Gate
    penstock: Penstock

    async def ask(self, operation: str, **arguments: Any) -> Any:
        return await internal_call(self.gate, local_owner(), operation, arguments, surface="cli")

    async def code(self, operation: str, **arguments: Any) -> str:
        with pytest.raises(PenstockError) as caught:
            await self.ask(operation, **arguments)
        return caught.value.code


@asynccontextmanager
async def server(folder: Path, mode: SignatureMode = "require") -> AsyncIterator[Server]:
    trust = SignatureTrust(mode=mode, trusted_keys={"release": public_key_spki(KEY)})
    async with (
        Penstock.open(folder / "store.db", signatures=trust, governed=True) as penstock,
        open_gate(penstock) as gate,
    ):
        yield Server(gate, penstock)


@pytest.mark.parametrize("code", BAD)
async def test_every_way_to_store_a_workflow_refuses_a_bad_signature(tmp_path: Path, code: str) -> None:
    bad = BAD[code]
    async with server(tmp_path) as here:
        assert await here.code("workflow.create", document=bad) == code
        assert await here.code("workflow.import", workflows=[bad]) == code
        with pytest.raises(PenstockError) as caught:
            await here.penstock.register(bad)
        assert caught.value.code == code
        await here.ask("workflow.create", document=signed(CHANGED))
        assert await here.code("workflow.update", workflow_id="greet", document=bad) == code
        assert await here.code("workflow.import", workflows=[bad], overwrite=True) == code
        assert (await here.ask("workflow.get", workflow_id="greet")).document == signed(CHANGED)


async def test_a_signed_workflow_is_stored_started_and_marked(tmp_path: Path) -> None:
    async with server(tmp_path) as here:
        made = await here.ask("workflow.create", document=signed(GREET))
        assert (made.signature.verified, made.signature.key_id) == (True, "release")
        result = await here.ask("workflow.execute", workflow_id="greet", wait_seconds=240)
        assert result.output == "hello"


async def stored_unsigned(folder: Path) -> str:
    """Store workflows while nobody asks for signatures; gives the id of a run."""
    async with server(folder, "off") as here:
        await here.ask("workflow.create", document=GREET)
        await here.ask("workflow.create", document=signed(PARENT))
        run = await here.ask("workflow.execute", workflow_id="greet", wait_seconds=240)
        return str(run.execution_id)


async def test_no_way_starts_a_workflow_that_was_stored_without_a_signature(tmp_path: Path) -> None:
    run_id = await stored_unsigned(tmp_path)
    async with server(tmp_path) as here:
        assert await here.code("workflow.execute", workflow_id="greet") == "SIGNATURE_REQUIRED"
        parent = await here.ask("workflow.execute", workflow_id="parent", wait_seconds=240)
        assert parent.status == "failed"
        assert parent.error.code == "SIGNATURE_REQUIRED"
        assert await here.code("execution.fork", execution_id=run_id, at_sequence=1) == "SIGNATURE_REQUIRED"
        view = await here.ask("workflow.get", workflow_id="greet")
        assert (view.signature.verified, view.signature.code) == (False, "SIGNATURE_REQUIRED")
        assert (await here.ask("execution.status", execution_id=run_id)).status == "completed"


async def test_what_callers_register_or_send_does_not_run_where_signatures_are_required(tmp_path: Path) -> None:
    """The server writes their documents around what callers say, and nobody has signed that: tools, agents, nodes."""
    task: JsonObject = {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "Go."}
    calls: tuple[tuple[str, JsonObject], ...] = (
        ("tool.execute", {"tool_id": "order", "arguments": {}}),
        ("task.execute", {"task": task, "sync": True}),
        ("agent.execute", {"agent_id": "helper", "prompt": "Go."}),
        ("agent.message", {"agent_id": "helper", "message": "Go."}),
    )
    async with server(tmp_path, "off") as here:
        await here.ask("tool.create", id="order", kind="http", http={"url": "http://127.0.0.1:1/x"})
        await here.ask("agent.create", id="helper", instructions="Help.")
        await here.ask("tool.execute", tool_id="order", arguments={})  # what is stored by now helps nobody
        before = len((await here.ask("execution.list")).items)
    async with server(tmp_path) as here:
        for operation, arguments in calls:
            assert await here.code(operation, **arguments) == "SIGNATURE_REQUIRED", operation
        assert len((await here.ask("execution.list")).items) == before


async def test_signing_a_stored_workflow_is_enough_also_for_a_process_that_knows_it_unsigned(tmp_path: Path) -> None:
    await stored_unsigned(tmp_path)
    async with server(tmp_path) as here:
        assert await here.code("workflow.execute", workflow_id="greet") == "SIGNATURE_REQUIRED"
        async with server(tmp_path) as other:
            await other.ask("workflow.update", workflow_id="greet", document=signed(GREET))
        result = await here.ask("workflow.execute", workflow_id="greet", wait_seconds=240)
        assert result.output == "hello"


async def test_an_unsigned_copy_takes_no_signature_away(tmp_path: Path) -> None:
    async with server(tmp_path) as here:
        await here.ask("workflow.create", document=signed(GREET))
    async with server(tmp_path, "off") as here:
        await here.ask("workflow.update", workflow_id="greet", document=GREET)
    async with server(tmp_path) as here:
        await here.ask("workflow.execute", workflow_id="greet", wait_seconds=240)


def rewrite(folder: Path, document: JsonObject) -> None:
    """Change the document of the only workflow in the file, as somebody could who may write the file."""
    file = sqlite3.connect(folder / "store.db")
    file.execute("UPDATE definitions SET document = ?", (json.dumps(document).encode(),))
    file.commit()
    file.close()


@pytest.mark.parametrize("forged", ["unsigned", "old signature", "another signed workflow"])
async def test_a_workflow_that_was_changed_in_the_file_is_not_started(tmp_path: Path, forged: str) -> None:
    async with server(tmp_path) as here:
        await here.ask("workflow.create", document=signed(GREET))
    block = signed(GREET)["signature"]
    documents = {
        "unsigned": CHANGED,
        "old signature": {**CHANGED, "signature": block},
        "another signed workflow": signed(CHANGED),
    }
    rewrite(tmp_path, documents[forged])
    async with server(tmp_path) as here:
        assert await here.code("workflow.execute", workflow_id="greet") == "SIGNATURE_INVALID"


async def test_a_run_does_not_go_on_with_a_definition_that_was_changed_in_the_file(tmp_path: Path) -> None:
    waiting: JsonObject = {
        **GREET,
        "nodes": [{"id": "pause", "type": "wait", "duration": "1h"}, {"id": "done", "type": "end"}],
    }
    async with server(tmp_path) as here:
        await here.ask("workflow.create", document=signed(waiting))
        run = await here.ask("workflow.execute", workflow_id="greet", wait_seconds=1)
    rewrite(tmp_path, signed(CHANGED))
    async with server(tmp_path) as here:
        status = await here.ask("execution.list", workflow_id="greet")
        assert [item.execution_id for item in status.items] == [run.execution_id]
        assert await here.code("execution.cancel", execution_id=run.execution_id) == "DEFINITION_CHANGED"


async def test_in_the_mode_warn_everything_works_and_is_marked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with server(tmp_path, "warn") as here:
        for code, bad in BAD.items():
            name = code.lower()
            made = await here.ask("workflow.create", document={**bad, "name": name})
            assert not made.signature.verified
            await here.ask("workflow.execute", workflow_id=name, wait_seconds=240)
    assert len([record for record in caplog.records if record.name == "penstock.signatures"]) == len(BAD)


# --- the commands -------------------------------------------------------------------------------------------------


def penstock(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


YAML = """# A greeting.
penstock: v1
name: greet   # to everybody
nodes:
  - {id: done, type: end, output: hello}
"""


def test_a_file_is_signed_in_place_verified_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("greet.yaml").write_text(YAML, encoding="utf-8")
    Path("penstock.yaml").write_text(
        "workflows: {signatures: {mode: require, trusted_keys: [release.key.pub]}}\n", encoding="utf-8"
    )
    made = penstock("workflow", "sign", "--new-key", "release.key", "--json")
    assert made.exit_code == 0, made.output
    assert Path("release.key").stat().st_mode & 0o077 == 0
    refused = penstock("run", "greet.yaml", "--json")
    assert refused.exit_code != 0
    assert "SIGNATURE_REQUIRED" in refused.output
    checked = penstock("workflow", "verify-signature", "greet.yaml", "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["files"][0]["code"]) == (1, "SIGNATURE_REQUIRED")
    for _ in range(2):  # signing again replaces the signature
        assert penstock("workflow", "sign", "greet.yaml", "--key", "release.key").exit_code == 0
    text = Path("greet.yaml").read_text(encoding="utf-8")
    assert text.startswith(YAML)
    assert text.count("signature:") == 1
    verified = penstock("workflow", "verify-signature", "greet.yaml", "--json")
    assert (verified.exit_code, json.loads(verified.stdout)["ok"]) == (0, True)
    ran = penstock("run", "greet.yaml", "--json")
    assert ran.exit_code == 0, ran.output
    Path("greet.yaml").write_text(text.replace("hello", "evil"), encoding="utf-8")
    assert "SIGNATURE_INVALID" in penstock("run", "greet.yaml", "--json").output
    assert penstock("workflow", "verify-signature", "greet.yaml").exit_code == 1


def test_a_published_document_and_json_are_signed_at_their_places(tmp_path: Path) -> None:
    published = tmp_path / "published.yaml"
    example = next(path for path in Path("examples").rglob("*") if is_published(path))
    published.write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    native = tmp_path / "native.json"
    native.write_text(json.dumps(GREET), encoding="utf-8")
    key = tmp_path / "release.key"
    shown = penstock("workflow", "sign", "--new-key", str(key), str(published), str(native), "--json")
    assert shown.exit_code == 0, shown.output
    assert (
        penstock("workflow", "verify-signature", str(published), str(native), "--trusted", f"{key}.pub").exit_code == 0
    )


def is_published(path: Path) -> bool:
    return path.suffix in (".yaml", ".json") and "state_schema" in path.read_text(encoding="utf-8")


def test_keys_are_not_overwritten_shared_or_guessed(tmp_path: Path) -> None:
    key = tmp_path / "release.key"
    assert penstock("workflow", "sign", "--new-key", str(key)).exit_code == 0
    assert "KEY_FILE_EXISTS" in penstock("workflow", "sign", "--new-key", str(key), "--json").output
    file = tmp_path / "greet.yaml"
    file.write_text(YAML, encoding="utf-8")
    key.chmod(0o644)
    assert "KEY_FILE_EXPOSED" in penstock("workflow", "sign", str(file), "--key", str(key), "--json").output
    assert (
        "KEY_FILE_INVALID"
        in penstock("workflow", "verify-signature", str(file), "--trusted", str(file), "--json").output
    )
    assert (
        "KEY_FILE_UNREADABLE"
        in penstock("workflow", "verify-signature", str(file), "--trusted", "none.pub", "--json").output
    )
