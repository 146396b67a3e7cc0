"""What policies see of a run: whoever started it, and never somebody with more rights."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.pipe_principal import PipePrincipal
from penstock.governance.principals import Principal
from penstock.operations.gate.context import Credentials, ServerParts
from penstock.operations.permissions.run_principals import principal_of_run
from tests.issuers import Issuer, IssuerDirectory
from tests.unit.app.test_pipe_principal import settings
from tests.unit.operations.conftest import Caller
from tests.unit.operations.documents import DOUBLE

pytestmark = pytest.mark.anyio
ISSUER = Issuer()


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Caller]:
    server = ServerParts(tokens=IssuerDirectory([ISSUER]).choices())
    async with Penstock.open(folder / "penstock.db") as penstock, open_gate(penstock, server=server) as gate:
        owner = Caller(gate, local_owner(), penstock)
        await owner.call("workflow.create", document=DOUBLE)
        yield owner


async def of_run(caller: Caller) -> Principal:
    run = await caller.call("workflow.execute", workflow_id="double", input={"number": 1})
    state = await caller.gate.services.host.read(run["execution_id"])
    assert state is not None
    return await principal_of_run(caller.gate.services, state, "double")


async def test_the_assistant_at_a_pipe_does_not_become_the_owner_by_starting_a_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        pipe = PipePrincipal(owner.gate, settings(name="helper", groups=("helpers",)))
        await pipe.prepare()
        found = await of_run(Caller(owner.gate, pipe(), owner.penstock))
        assert (found.id, found.kind, sorted(found.groups)) == ("pipe:helper", "agent", ["helpers"])
        assert found.scopes == pipe().scopes
        assert found.acting_for == (local_owner().id,)


async def test_a_run_of_a_token_has_what_the_token_had(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        token = ISSUER.token(scope="workflow:run graph:read", groups=["finance"])
        found = await of_run(Caller(owner.gate, Credentials(bearer=token), owner.penstock))
        assert (found.id, found.kind, sorted(found.groups)) == ("token:company:ada", "person", ["company.finance"])
        assert found.scopes == {"workflow:run", "graph:read"}
        assert found.attributes["client"] == "desktop"


async def test_a_run_of_a_key_has_what_the_key_has_now(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        made = await owner.call("key.create", name="k", scopes=["workflow:run"], kind="agent")
        found = await of_run(owner.with_key(made["secret"]))
        assert (found.id, found.kind, sorted(found.scopes)) == (f"key:{made['key']['id']}", "agent", ["workflow:run"])
