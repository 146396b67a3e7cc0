"""What is declared is enforced, or refused; what is set does something."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions
from penstock.app.settings.model import AuthKeySettings, AuthSettings, Settings
from penstock.definitions.validate import validate_document
from tests.unit.operations.conftest import Caller

pytestmark = pytest.mark.anyio
ASK: dict[str, Any] = {"id": "ask", "type": "interrupt", "message": "?"}


def document(governance: dict[str, Any] | None = None, approvers: dict[str, Any] | None = None) -> dict[str, Any]:
    asking = ASK if approvers is None else {**ASK, "approvers": approvers}
    made = {"penstock": "v1", "name": "guarded", "nodes": [asking, {"id": "done", "type": "end"}]}
    return made if governance is None else {**made, "governance": governance}


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        (document({"confirm": True}), "/governance/confirm"),
        (document({"draft": "always"}), "/governance/draft"),
        (document({"rate": {"limit": 1, "per": "1h"}}), "/governance/rate"),
        (document({"approvers": {"group": "leads"}}), "/governance/approvers"),
        (document(None, {"users": ["ada"]}), "/nodes/0/approvers/users"),
        (document(None, {"group": "leads", "count": 2}), "/nodes/0/approvers/count"),
    ],
)
def test_a_guard_that_would_guard_nothing_is_refused(declared: dict[str, Any], path: str) -> None:
    assert [(item.code, item.path) for item in validate_document(declared)] == [("NOT_ENFORCED", path)]


def test_what_is_enforced_or_asks_for_nothing_passes() -> None:
    plain = {"risk": "high", "scopes": ["a:b"], "data": ["personal"], "confirm": False, "draft": "never"}
    assert validate_document(document(plain, {"group": "leads", "not_requester": True, "count": 1})) == ()


async def test_a_key_is_valid_as_long_as_the_settings_say_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    settings = Settings(auth=AuthSettings(keys=AuthKeySettings(default_expiry=timedelta(days=1))))
    async with Penstock.open(tmp_path / "penstock.db") as penstock:
        async with open_gate(penstock, chosen=ServerOptions.of(settings).gate) as gate:
            owner = Caller(gate, local_owner(), penstock)
            made = await owner.call("key.create", name="usual", scopes=["*"])
            longer = await owner.call("key.create", name="longer", scopes=["*"], expires_in="90d")
        now = penstock.host.clock.now_ms()
        usual, long = [await penstock_key(penstock, item["key"]["id"]) for item in (made, longer)]
        assert 0 < usual - now <= 86_400_000 < long - now


async def penstock_key(penstock: Penstock, key_id: str) -> int:
    store: Any = penstock.store
    found = await store.database.writer.submit(
        lambda connection: connection.execute("SELECT expires_at FROM api_keys WHERE key_id = ?", (key_id,)).fetchone()
    )
    return int(found[0])
