"""Workflow files while a server runs: changes are taken up file by file, and never undo what somebody did since."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.app.files.watcher import FileWatcher
from penstock.app.files.workflows import workflow_checks
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import Settings, WorkflowSettings
from penstock.cli.server.workflow_files import WorkflowFiles, read_named_workflows
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from tests.waiting import SECONDS_MAX

FLOW = "penstock: v1\nname: greet\nnodes:\n  - {id: done, type: end, output: hello}\n"
STEP = "penstock: v1\nname: greet\nnodes:\n  - {id: work, type: step, handler: 'shop:pay'}\n  - {id: done, type: end}\n"


class Watched:
    """A folder of workflows under a gate."""

    def __init__(self, gate: Gate, folder: Path) -> None:
        self.gate = gate
        self.folder = folder
        self.watcher = FileWatcher(settle_seconds=0)
        self.files = WorkflowFiles(Settings(workflows=WorkflowSettings(paths=(str(folder),))))

    async def begin(self) -> Watched:
        await self.watcher.add(self.files.read(), self.files.stamps)
        await self.files.register(self.gate)
        return self

    async def change(self, name: str, text: str | None) -> dict[str, str]:
        """Change a file; gives what health says."""
        file = self.folder / name
        if text is None:
            file.unlink()
        else:
            file.write_text(text, encoding="utf-8")
        await self.watcher.look()
        return workflow_checks(self.watcher, self.files)

    async def call(self, operation: str, **arguments: Any) -> Any:
        return await internal_call(self.gate, local_owner(), operation, arguments, surface="cli")

    async def output(self, name: str = "greet") -> Any:
        document = (await self.call("workflow.get", workflow_id=name)).document
        return document["nodes"][-1].get("output")


def watched(folder: Path, body: Callable[[Watched], Awaitable[None]]) -> None:
    (folder / "flows").mkdir()
    (folder / "flows/greet.yaml").write_text(FLOW, encoding="utf-8")

    async def work() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(folder / "penstock.db") as penstock,
            open_gate(penstock) as gate,
        ):
            await body(await Watched(gate, folder / "flows").begin())

    asyncio.run(work())


def test_changed_and_new_files_are_in_use_at_once(tmp_path: Path) -> None:
    async def body(flows: Watched) -> None:
        assert set((await flows.change("greet.yaml", FLOW.replace("hello", "bonjour"))).values()) == {"ok"}
        assert await flows.output() == "bonjour"
        await flows.change("more.yaml", FLOW.replace("greet", "more"))
        assert await flows.output("more") == "hello"

    watched(tmp_path, body)


def test_a_change_of_another_file_or_of_a_comment_does_not_bring_an_older_version_back(tmp_path: Path) -> None:
    async def body(flows: Watched) -> None:
        document = (await flows.call("workflow.get", workflow_id="greet")).document
        document["nodes"][0]["output"] = "salve"
        await flows.call("workflow.update", workflow_id="greet", document=document)
        await flows.change("more.yaml", FLOW.replace("greet", "more"))
        await flows.change("greet.yaml", f"# as before\n{FLOW}")
        assert await flows.output() == "salve"

    watched(tmp_path, body)


def test_a_version_that_needs_what_this_process_lacks_waits_for_a_restart(tmp_path: Path) -> None:
    async def body(flows: Watched) -> None:
        checks = await flows.change("greet.yaml", STEP)
        assert "UNKNOWN_HANDLER" in checks["workflows"]
        assert "restart" in checks["workflows"]
        assert checks["workflow_files"] == "ok"
        assert await flows.output() == "hello"
        assert set((await flows.change("greet.yaml", FLOW)).values()) == {"ok"}

    watched(tmp_path, body)


@pytest.mark.parametrize("text", ["", "# nothing\n", "hello: world\n", "penstock: v1\nname: gre"])
def test_a_file_that_is_no_workflow_any_more_is_named_and_its_workflow_stays(tmp_path: Path, text: str) -> None:
    async def body(flows: Watched) -> None:
        await flows.change("more.yaml", FLOW.replace("greet", "more"))
        for said in ("salve", "servus"):
            assert "greet.yaml" in (await flows.change("greet.yaml", text))["workflows"]
            checks = await flows.change("more.yaml", FLOW.replace("greet", "more").replace("hello", said))
            assert "greet.yaml" in checks["workflows"]
        assert await flows.output() == "hello"
        assert set((await flows.change("greet.yaml", FLOW)).values()) == {"ok"}

    watched(tmp_path, body)


def test_a_file_that_is_removed_from_a_folder_leaves_its_workflow_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(flows: Watched) -> None:
        await flows.change("more.yaml", FLOW.replace("greet", "more"))
        assert set((await flows.change("more.yaml", None)).values()) == {"ok"}
        assert "more.yaml is gone; the workflow more stays known until you delete it" in caplog.text
        assert await flows.output("more") == "hello"
        await flows.change("more.yaml", FLOW.replace("greet", "more"))

    with caplog.at_level(logging.WARNING, "penstock.worker"):
        watched(tmp_path, body)


def test_a_file_that_cannot_be_registered_is_named_until_it_can(tmp_path: Path) -> None:
    async def body(flows: Watched) -> None:
        taken = {"expose": {"tool": {"name": "pay"}}}
        nodes = [{"id": "done", "type": "end"}]
        await flows.call("workflow.create", document={"penstock": "v1", "name": "owner", **taken, "nodes": nodes})
        wanted = FLOW.replace("nodes:", "expose: {tool: {name: pay}}\nnodes:")
        assert "NAME_TAKEN" in (await flows.change("greet.yaml", wanted))["workflows"]
        assert "NAME_TAKEN" in (await flows.change("more.yaml", FLOW.replace("greet", "more")))["workflows"]
        assert await flows.output() == "hello"
        assert set((await flows.change("greet.yaml", FLOW)).values()) == {"ok"}

    watched(tmp_path, body)


def test_linked_files_of_a_folder_count_as_in_a_mounted_volume(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data/greet.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "greet.yaml").symlink_to("..data/greet.yaml")
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "empty.yaml").touch()
    named = read_named_workflows([str(tmp_path)])
    assert [source.label for source in named.sources] == [str(tmp_path / "greet.yaml")]
    assert [source.label for source in named.unreadable] == [str(tmp_path / "empty.yaml")]
    assert not named.missing
