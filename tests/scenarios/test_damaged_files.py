"""Every kind of file of the operator, damaged in every way: no start goes on, a running server keeps what it had."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from penstock.app.files.graphs import GraphFiles, graph_checks
from penstock.app.files.policies import POLICIES_CHECK, PolicyFiles
from penstock.app.files.watcher import FileWatcher
from penstock.app.files.workflows import workflow_checks
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.graphs import GraphSettings
from penstock.app.settings.model import Settings, WorkflowSettings
from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.cli.server.workflow_files import WorkflowFiles
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.system.health import is_ready
from tests.fixtures.graph_data import written_graph
from tests.scenarios.test_operator_files import GRAPH_POLICY, NO_AGENTS
from tests.scenarios.test_policies import BASE
from tests.waiting import SECONDS_MAX

FLOW: Final = "penstock: v1\nname: greet\nnodes:\n  - {id: done, type: end, output: hello}\n"


def empty(file: Path) -> None:
    file.write_bytes(b"")


def blank(file: Path) -> None:
    file.write_text(" \n\n")


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: max(1, file.stat().st_size // 3)])


def only_comments(file: Path) -> None:
    file.write_text("# nothing is left\n" if file.suffix == ".yaml" else "// nothing is left\n")


def deleted(file: Path) -> None:
    file.unlink()


def renamed(file: Path) -> None:
    file.rename(file.with_suffix(".old"))


def folder_in_its_place(file: Path) -> None:
    file.unlink()
    file.mkdir()


def symlink_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def dangling_symlink(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))


def pipe_in_its_place(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def device_in_its_place(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def not_utf8(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\n# // \xff\xfe\n")


def nul_bytes(file: Path) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


def huge(file: Path) -> None:
    with file.open("ab") as opened:
        opened.truncate(limits.OPERATOR_FILE_BYTES_MAX * 1000)


def folder_removed(file: Path) -> None:
    shutil.rmtree(file.parent)


def folder_is_a_file(file: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("")


DAMAGES: Final = (
    empty,
    blank,
    cut_off,
    only_comments,
    deleted,
    renamed,
    folder_in_its_place,
    symlink_loop,
    dangling_symlink,
    pipe_in_its_place,
    device_in_its_place,
    not_utf8,
    nul_bytes,
    huge,
    folder_removed,
    folder_is_a_file,
)


@dataclass(frozen=True)
class Files:
    """The operator's files in a folder, and the settings that name them."""

    folder: Path

    @property
    def by_kind(self) -> dict[str, Path]:
        return {
            "policies": self.folder / "policies/rules.cedar",
            "graph policies": self.folder / "guards/crm.cedar",
            "queries": self.folder / "queries/tasks.gq",
            "schema": self.folder / "schemas/crm.pg",
            "workflow": self.folder / "flow/greet.yaml",
            "folder of workflows": self.folder / "flows/greet.yaml",
            "pattern of workflows": self.folder / "patterns/greet.yaml",
        }

    def write(self) -> Files:
        """Put every file where it belongs, whatever is there."""
        written = self.folder / "written"
        if not written.exists():
            written.mkdir()
            written_graph(written)
        texts = {
            "policies": BASE + NO_AGENTS,
            "graph policies": GRAPH_POLICY,
            "queries": (written / "crm/queries/tasks.gq").read_text(encoding="utf-8"),
            "schema": (written / "crm/schema.pg").read_text(encoding="utf-8"),
        }
        for kind, file in self.by_kind.items():
            with suppress(FileNotFoundError):
                file.parent.unlink() if file.parent.is_file() else shutil.rmtree(file.parent)
            file.parent.mkdir()
            file.write_text(texts.get(kind, FLOW.replace("greet", kind.replace(" ", "_"))), encoding="utf-8")
        return self

    @property
    def graph(self) -> GraphSettings:
        kinds = self.by_kind
        return GraphSettings(
            schema=str(kinds["schema"]),
            queries=(str(kinds["queries"].parent),),
            policy=(str(kinds["graph policies"]),),
        )

    def workflows(self, kind: str) -> WorkflowFiles:
        file = self.by_kind[kind]
        named = {"workflow": file, "folder of workflows": file.parent, "pattern of workflows": file.parent / "*.yaml"}
        return WorkflowFiles(Settings(workflows=WorkflowSettings(paths=(str(named[kind]),))))


def opened(folder: Path, body: Callable[[Gate], Awaitable[None]]) -> None:
    async def work() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(folder / "penstock.db") as penstock,
            open_gate(penstock) as gate,
        ):
            await body(gate)

    asyncio.run(work())


def is_quarantined(kind: str, damage: Callable[[Path], None]) -> bool:
    """Whether the damage leaves a document with a mistake, which quarantines a workflow file."""
    return damage is cut_off and kind.endswith(("workflow", "workflows"))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_no_kind_of_damage_to_a_file_lets_a_start_go_on_without_it(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    files = Files(tmp_path).write()

    async def load(gate: Gate, kind: str) -> None:
        watcher = FileWatcher(settle_seconds=0)
        if kind == "policies":
            await watcher.load(PolicyFiles([str(files.by_kind["policies"])], gate))
        elif kind.endswith(("workflow", "workflows")):
            found = files.workflows(kind).read()
            assert is_quarantined(kind, damage)
            assert found.quarantined
            raise Rejected("QUARANTINED", str(found.quarantined), "")
        else:
            await watcher.load(GraphFiles("crm", files.graph, gate))

    async def body(gate: Gate) -> None:
        for kind, file in files.by_kind.items():
            files.write()
            damage(file)
            with pytest.raises(Rejected) as caught:
                await load(gate, kind)
            assert str(file.parent) in caught.value.message, (kind, caught.value.message)

    opened(tmp_path, body)


def test_whatever_happens_to_a_file_the_server_keeps_what_it_had_and_says_so(tmp_path: Path) -> None:
    files = Files(tmp_path).write()

    async def state(gate: Gate) -> object:
        """What is in force."""
        assert gate.services.policies is not None
        owner = local_owner()
        queries = await internal_call(gate, owner, "graph.queries_list", {"graph_id": "crm"}, surface="cli")
        flows = await internal_call(gate, owner, "workflow.list", {}, surface="cli")
        return (
            [policy.id for policy in gate.services.policies.server],
            [item.name for item in queries.queries],
            [(item.id, item.hash) for item in flows.items],
        )

    async def body(gate: Gate) -> None:
        graph, watcher = GraphFiles("crm", files.graph, gate), FileWatcher(settle_seconds=0)
        await watcher.load(PolicyFiles([str(files.by_kind["policies"])], gate))
        await watcher.load(graph)
        flows = {kind: files.workflows(kind) for kind in files.by_kind if kind.endswith(("workflow", "workflows"))}
        for kind, found in flows.items():
            found.name = kind
            await watcher.add(found.read(), found.stamps)
            await found.register(gate)

        def checks(kind: str) -> dict[str, str]:
            if kind == "policies":
                return {kind: watcher.problem(POLICIES_CHECK) or "ok"}
            return workflow_checks(watcher, flows[kind]) if kind in flows else graph_checks(watcher, [graph])

        before = await state(gate)
        for damage in DAMAGES:
            for kind, file in files.by_kind.items():
                damage(file)
                await watcher.look()
                health = checks(kind)
                assert is_ready(health) == is_quarantined(kind, damage), (kind, damage, health)
                assert any(str(file.parent) in text for text in health.values()), (kind, damage, health)
                assert await state(gate) == before, (kind, damage)
                files.write()
                await watcher.look()
                assert set(checks(kind).values()) == {"ok"}, (kind, damage, checks(kind))

    opened(tmp_path, body)
