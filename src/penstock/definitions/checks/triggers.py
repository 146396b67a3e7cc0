"""Checks of webhook triggers that no schema can state: two at one address, and requests that anybody could send.

Above it: `validate`. Below it: `webhooks`, which normalises paths.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.webhooks import hook_path

__all__ = ["trigger_findings"]


def trigger_findings(document: JsonObject) -> Iterator[Finding]:
    """Yield everything that is wrong with the webhooks of a document."""
    triggers = document.get("triggers")
    taken: dict[tuple[str, str], str] = {}
    for number, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        webhook = trigger.get("webhook") if isinstance(trigger, dict) else None
        if not isinstance(webhook, dict) or not isinstance(webhook.get("path"), str):
            continue
        place = f"/triggers/{number}/webhook"
        name = str(webhook.get("method", "POST")), hook_path(str(webhook["path"]))
        if name in taken:
            yield Finding(
                code="WEBHOOK_PATH_REPEATED",
                message=f"{name[0]} /hooks/{name[1]} is taken by the trigger at {taken[name]}",
                path=f"{place}/path",
                hint="give each webhook its own path, or distinguish requests with `filter`",
            )
        taken.setdefault(name, place)
        verify = webhook.get("verify")
        unsigned = isinstance(verify, dict) and verify.get("strategy") == "none"
        if "secret" not in webhook or unsigned:
            yield Finding(
                code="WEBHOOK_UNSIGNED",
                message="requests to this webhook are unsigned, so anybody who knows the address can send them",
                path=place,
                hint="name a `secret` that signs them; servers refuse unsigned requests unless operators allow them",
                severity=Severity.WARNING,
            )
