"""What a small company would have on its server: what the tests of every page show besides hostile texts.

Above it: `conftest`, `pages`. Below it: the examples of the project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from docs.generator.screenshots import CLAIM, REFUND
from tests.live.console.governed import World
from tests.live.console.visiting import HOSTILE
from tests.live.rest.servers import LiveServer
from tests.waiting import wait_until

__all__ = ["claimed", "furnish", "held", "names"]

_EXAMPLES = Path(__file__).parents[3] / "examples"
_STORED = ("incident-response", "nightly-report", "code-review", "saga-booking")
_CLAIMS = (("B-17", 20), ("B-18", -5), ("B-19", 64), ("B-20", 240), ("B-21", 99.5), ("B-22", 1250))
_AGENT: dict[str, Any] = {
    "id": "support",
    "name": "Support",
    "description": "Answers customers, and refunds orders that came back.",
    "instructions": "Be brief and kind.\nAsk before you refund more than 100.",
    "workflows": ["refund_order", "settle_claim"],
}


def furnish(server: LiveServer) -> None:
    """Store workflows, let some of them run, and connect what a company connects."""
    for name in _STORED:
        document = yaml.safe_load((_EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
        server.call("POST", "workflows", {"document": document})
    for document in (CLAIM, REFUND):
        server.call("POST", "workflows", {"document": document})
    for order, amount in _CLAIMS:
        claimed(server, order, amount)
    server.call("POST", "agents", _AGENT)
    weekly = {"schedule_id": "weekly-claims", "cron": "0 7 * * 1", "timezone": "Europe/Berlin"}
    server.call("POST", "schedules", {"workflow_id": "settle_claim", "input": {"order": "B-1", "amount": 5}, **weekly})
    hook = {"url": "https://hooks.example.com/claims", "events": ["run.failed"], "workflows": ["settle_claim"]}
    server.call("POST", "webhooks", {**hook, "description": "Tells the team about claims that fail."})


def claimed(server: LiveServer, order: str, amount: float) -> str:
    """A run that has ended, or that waits for an answer."""
    given = {"input": {"order": order, "amount": amount}, "labels": {"team": "claims"}}
    run_id: str = server.call("POST", "workflows/settle_claim/executions", given)["execution_id"]
    wait_until(lambda: server.call("GET", f"executions/{run_id}")["status"] in ("completed", "failed", "waiting_input"))
    return run_id


def held(server: LiveServer, key: str, workflow: str = "refund_order", **given: Any) -> str:
    """A call of an agent that waits for approval."""
    sent = {"Penstock-Justification": "The customer sent it back."}
    answer = server.request("POST", f"workflows/{workflow}/executions", {"input": given}, key=key, headers=sent)
    draft_id: str = answer.json()["held"]["draft_id"]
    return draft_id


def names(server: LiveServer, world: World) -> dict[str, str]:
    """What stands for the names in the addresses of `pages`."""
    waits, failed = claimed(server, "B-30", 700), claimed(server, "B-31", -1)
    hostile = server.call("POST", "workflows/asks/executions", {"input": {"what": HOSTILE * 200}})["execution_id"]
    broken = server.call("POST", "workflows/breaks/executions", {"input": {}})["execution_id"]
    server.call("GET", f"executions/{broken}/wait?wait_seconds=10")
    merge = server.request("POST", "graphs/crm/branches/merge", {"source": world.review}, key=world.clerk).json()
    server.call("POST", "audit/checkpoints")
    versions = [item["hash"] for item in server.call("GET", "workflows/order/versions")["items"]]
    return {
        "waits": waits,
        "failed": failed,
        "hostile": hostile,
        "broken": broken,
        "held": held(server, world.agent, order="A-1042", amount=180, reason="The parcel came back."),
        "held_hostile": held(server, world.agent, "erase_customer", customer=HOSTILE),
        "held_merge": merge["held"]["draft_id"],
        "endpoint": server.call("GET", "webhooks")["items"][0]["id"],
        "commit": server.call("GET", "graphs/crm/commits?branch=review/ada&limit=1")["commits"][0]["commit_id"],
        "review": world.review,
        "conflict": world.conflict,
        "two_versions": urlencode({"before": versions[1], "after": versions[0]}),
    }
