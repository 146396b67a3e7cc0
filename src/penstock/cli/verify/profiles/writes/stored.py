"""What is stored acts later: a model stores nothing that takes effect before a person has accepted it."""

from __future__ import annotations

from secrets import token_hex

from penstock.cli.verify.checks import NotApplicable, expect
from penstock.cli.verify.kit import API, Kit
from penstock.cli.verify.profiles.writes.table import WRITES
from penstock.cli.verify.target import Json

__all__: list[str] = []


_NOT_SERVED = (404, 405)
_SCOPES = ["workflow:write", "workflow:run", "workflow:read"]


@WRITES.check(
    "A workflow that an agent stores waits for a person.", "What is stored runs later, when nobody asks who wrote it."
)
async def stored_workflow_waits(kit: Kit) -> None:
    if kit.target.admin_key is None:
        raise NotApplicable("no key was given that may make others; pass --admin-key")
    await kit.need_held_calls()
    owner = kit.with_key(kit.target.admin_key, API)
    made = await owner.request("POST", "/keys", {"name": "verify agent", "kind": "agent", "scopes": _SCOPES})
    if made.status in _NOT_SERVED:
        raise NotApplicable(f"nothing makes keys at {API}/keys")
    secret = made.body.get("secret")
    expect(isinstance(secret, str), "a key of an agent", made)
    agent = kit.with_key(secret, API)
    name = f"verify_{token_hex(6)}"
    document: Json = {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": "ran"}]}
    stored = await agent.request("POST", "/workflows", {"document": document})
    expect(stored.body.get("status") == "waiting_approval", "a call that waits for approval", stored)
    ran = await owner.request("POST", f"/workflows/{name}/executions", {"sync": True})
    expect(ran.status in _NOT_SERVED, "no workflow before somebody has accepted it", ran)
