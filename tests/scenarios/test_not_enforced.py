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


def test_what_is_enforced_or_asks_for_nothing_passes() -> None:
    plain = {"risk": "high", "scopes": ["a:b"], "data": ["personal"], "confirm": False, "draft": "never"}
    limited = {**plain, "rate": {"limit": 1, "per": "1h", "bucket": "mail"}}
    assert validate_document(document(limited, {"group": "leads", "not_requester": True, "count": 1})) == ()


@pytest.mark.parametrize("per", ["0s", 0, "soon"])
def test_a_rate_that_is_none_is_refused(per: object) -> None:
    found = validate_document(document({"rate": {"limit": 1, "per": per}}))
    assert "/governance/rate" in {item.path[: len("/governance/rate")] for item in found}


def test_what_holds_calls_is_accepted() -> None:
    held = {"confirm": True, "draft": "always", "approvers": {"groups": ["leads", "finance"], "count": 2}}
    assert validate_document(document(held, {"users": ["key:ada"]})) == ()


def test_several_people_can_only_agree_if_an_answer_declines() -> None:
    asks_two = document(None, {"group": "leads", "count": 2})
    assert [item.code for item in validate_document(asks_two)] == ["DECLINE_REQUIRED"]


@pytest.mark.parametrize(
    ("approvers", "more", "code", "path"),
    [
        ({"count": 1}, {}, "ESCALATION_INVALID", "/escalate"),
        ({"group": "a"}, {"after": "0s"}, "ESCALATION_INVALID", "/escalate/after"),
        ({"group": "a"}, {"after": "25h"}, "ESCALATION_INVALID", "/escalate/after"),
        ({"group": "a"}, {"to": {"group": "no such group!"}}, "SCOPE_INVALID", "/escalate/to/group"),
        ({"group": "a"}, {"to": {}}, "MISSING_FIELD", "/escalate/to"),
        ({"group": "a"}, {"to": {"group": "b", "count": 2}}, "UNKNOWN_FIELD", "/escalate/to/count"),
    ],
)
def test_an_escalation_that_could_never_happen_is_refused(
    approvers: dict[str, Any], more: dict[str, Any], code: str, path: str
) -> None:
    named = {**approvers, "escalate": {"after": "1h", "to": {"group": "directors"}, **more}}
    asking = {**ASK, "approvers": named, "timeout": "24h"}
    made: dict[str, Any] = {"penstock": "v1", "name": "guarded", "nodes": [asking, {"id": "done", "type": "end"}]}
    found = validate_document(made)
    assert [(item.code, item.path.endswith(path)) for item in found] == [(code, True)], found


def test_the_published_format_names_no_approvers_and_so_nobody_to_ask_next() -> None:
    config = {"prompt": "?", "resume_schema": {"type": "object"}, "approvers": {"group": "a", "escalate": {}}}
    made: dict[str, Any] = {
        "document": {"schema": "https://example.com/schema", "name": "asks", "version": "1.0.0"},
        "state_schema": {"type": "object"},
        "nodes": [
            {"id": "begin", "type": "start"},
            {"id": "ask", "type": "interrupt", "config": config},
            {"id": "finish", "type": "end"},
        ],
        "edges": [
            {"source": "__start__", "target": "begin"},
            {"source": "begin", "target": "ask"},
            {"source": "ask", "target": "finish"},
        ],
    }
    assert ("UNKNOWN_FIELD", "/nodes/1/config/approvers") in {
        (item.code, item.path) for item in validate_document(made)
    }


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
    found = await store.database.one("SELECT expires_at FROM api_keys WHERE key_id = ?", (key_id,))
    return int(found[0])
