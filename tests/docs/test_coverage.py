"""Nothing is missing: every operation on every surface, every generated file current, all of it documented."""

from pathlib import Path
from typing import Any

import pytest

from docs.generator import coverage as looking
from docs.generator.events import CLOSED_EVENT, STREAM_EVENTS, WEBHOOK_EVENTS
from docs.generator.sources import sources
from penstock.cli.terminal.exits import EXIT_CODES
from penstock.cli.tree.commands import find_row
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import REASONS
from penstock.operations.runs.events import EVENT_TYPES as STREAM_EVENT_TYPES
from penstock.runtime.webhooks.events import EVENT_TYPES as WEBHOOK_EVENT_TYPES

ROOT = Path(__file__).parents[2]


def test_every_operation_is_reachable_on_every_surface_and_documented() -> None:
    found: Any = looking.surface_coverage(ROOT / "docs").to_json()
    assert found["uncovered"] == [], "run scripts/docs"
    assert found["ok"] is True
    assert found["operations"] == len(builtin_operations())
    assert found["documented"]["operations"] == found["operations"]


def test_what_is_missing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    excluded = {("cli", "workflow.gone"): "gone", ("client", "workflow.get"): "there"}
    whole = looking._tools

    async def other_tools(http: Any, key: str | None) -> dict[str, Any]:
        tools = {**await whole(http, key)}
        tools["penstock_workflow_get"] = {**tools["penstock_workflow_get"], "inputSchema": {}}
        return tools

    monkeypatch.setattr(looking, "_tools", other_tools)
    monkeypatch.setattr(looking, "EXCLUDED", excluded)
    monkeypatch.setattr(looking, "PAGES", {})
    monkeypatch.setattr(looking, "find_row", lambda path: None if path == "key create" else find_row(path))
    found = looking.surface_coverage(tmp_path)
    assert "cli: key.create: there is no command" in found.uncovered
    assert "cli: workflow.gone is excluded, but there is no such operation" in found.uncovered
    assert "client: workflow.get is excluded, but is there" in found.uncovered
    assert "mcp: key.create: there is no tool" in found.uncovered
    assert "mcp: workflow.get: the tool has another inputSchema" in found.uncovered
    assert "rest: the route /healthz belongs to no operation and is no listed page" in found.uncovered
    assert "docs: rest.md lacks workflow.get (operations)" in found.uncovered
    assert "docs: errors.md lacks WORKFLOW_NOT_FOUND (reasons)" in found.uncovered


def test_generated_sources_are_current() -> None:
    made = sources()
    stale = [name for name, text in made.items() if (ROOT / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run scripts/docs"
    folders = [ROOT / "src" / "penstock" / "client" / name for name in ("generated", "sync")]
    files = [path for folder in folders for path in folder.rglob("*.py") if path.name != "__init__.py"]
    written = {path.relative_to(ROOT).as_posix() for path in files}
    assert written <= set(made), "a generated file that nothing makes any more"


def test_every_event_is_described() -> None:
    assert set(STREAM_EVENTS) == {*STREAM_EVENT_TYPES, CLOSED_EVENT}
    assert set(WEBHOOK_EVENTS) == set(WEBHOOK_EVENT_TYPES)


def test_every_exit_code_of_a_refusal_is_described_and_is_not_that_of_a_run_that_waits() -> None:
    codes = {mapping_of(reason.kind(code, "")).exit_code for code, reason in REASONS.items()}
    assert codes <= set(EXIT_CODES) - {0, 2, 3, 130}
