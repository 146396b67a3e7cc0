"""Who the assistant at a pipe is, and what it may do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.pipe_principal import PipePrincipal
from penstock.app.settings.identity import PipeSettings
from penstock.app.settings.model import Settings
from penstock.base.scopes import scope_allows
from tests.unit.operations.conftest import Caller

pytestmark = pytest.mark.anyio

REFUND = {
    "penstock": "v1",
    "name": "refund",
    "expose": {"tool": True},
    "governance": {"scopes": ["shop:refund"]},
    "nodes": [{"id": "done", "type": "end"}],
}
HIDDEN = {**REFUND, "name": "hidden", "expose": {}, "governance": {"scopes": ["shop:close"]}}


def settings(toolset: str = "default", **pipe: Any) -> Settings:
    plain = Settings()
    mcp = replace(plain.server.mcp, toolset=toolset, pipe=PipeSettings(**pipe))
    return replace(plain, server=replace(plain.server, mcp=mcp))


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Caller]:
    async with Penstock.open(folder / "penstock.db") as penstock, open_gate(penstock) as gate:
        yield Caller(gate, local_owner(), penstock)


async def at_pipe(owner: Caller, chosen: Settings) -> Caller:
    principal = PipePrincipal(owner.gate, chosen)
    await principal.prepare()
    return Caller(owner.gate, principal(), owner.penstock)


async def test_an_assistant_runs_what_is_exposed_and_manages_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        for document in (REFUND, HIDDEN):
            await owner.call("workflow.create", document=document)
        agent = await at_pipe(owner, settings())
        who = await agent.principal()
        assert (who.id, who.kind) == (f"pipe:{local_owner().name}", "agent")
        assert who.acting_for == (local_owner().id,)
        started = await agent.call("workflow.execute", workflow_id="refund")
        await agent.call("execution.status", execution_id=started["execution_id"])
        assert "shop:close" not in who.scopes
        for operation, arguments in (
            ("key.create", {"name": "more", "scopes": ["*"]}),
            ("workflow.create", {"document": {**REFUND, "name": "other"}}),
            ("workflow.execute", {"workflow_id": "hidden"}),
            ("audit.list", {}),
        ):
            assert (await agent.refusal(operation, **arguments)).code == "SCOPE_REQUIRED"


async def test_what_is_exposed_later_can_be_called_and_what_is_taken_back_cannot(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        principal = PipePrincipal(owner.gate, settings())
        await principal.prepare()
        assert "shop:refund" not in principal().scopes
        await owner.call("workflow.create", document=REFUND)
        await owner.gate.exposed.of("default")
        assert "shop:refund" in principal().scopes
        await owner.call("workflow.delete", workflow_id="refund")
        await owner.gate.exposed.of("default")
        assert "shop:refund" not in principal().scopes


async def test_tools_of_management_bring_their_scopes_but_no_administration(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        agent = await at_pipe(owner, settings("management"))
        await agent.call("workflow.create", document=REFUND)
        assert (await agent.refusal("key.create", name="more", scopes=["*"])).code == "SCOPE_REQUIRED"
        assert (await agent.refusal("key.list")).code == "SCOPE_REQUIRED"
        assert not scope_allows((await agent.principal()).scopes, "*")


async def test_the_settings_name_another_principal(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        await owner.call("workflow.create", document=REFUND)
        chosen = settings(name="clerk", kind="service", scopes=("workflow:read",), groups=("desk",))
        who = await (await at_pipe(owner, chosen)).principal()
        assert (who.id, who.kind, who.scopes, who.groups) == (
            "pipe:clerk",
            "service",
            frozenset({"workflow:read"}),
            frozenset({"desk"}),
        )


async def test_the_owner_is_a_choice(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        assert await (await at_pipe(owner, settings(owner=True))).principal() == local_owner()
