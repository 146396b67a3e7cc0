"""Webhook triggers in documents: what is refused, what is warned of, and what they compile to."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import validate_document
from penstock.definitions.webhooks import hook_path, webhook_triggers


def document(*webhooks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "penstock": "v1",
        "name": "orders",
        "secrets": ["KEY"],
        "triggers": [{"webhook": webhook} for webhook in webhooks],
        "nodes": [{"id": "done", "type": "end"}],
        **more,
    }


def signed(**more: Any) -> dict[str, Any]:
    return {"path": "/orders", "secret": "${secret:KEY}", **more}


def codes(*webhooks: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(finding.code, finding.path) for finding in validate_document(document(*webhooks))]
    return [item for item in found if item[0] != "UNUSED_SECRET"]


def test_a_signed_webhook_has_no_findings() -> None:
    assert codes(signed(), signed(path="/other", verify={"strategy": "github"})) == []


def test_a_webhook_that_anybody_can_call_is_warned_of() -> None:
    assert codes({"path": "/orders"}) == [("WEBHOOK_UNSIGNED", "/triggers/0/webhook")]
    unsigned = validate_document(document(signed(verify={"strategy": "none"})))
    assert [(finding.code, finding.severity) for finding in unsigned] == [("WEBHOOK_UNSIGNED", Severity.WARNING)]


@pytest.mark.parametrize("path", ["/orders", "orders", "/hooks/orders", "hooks/orders"])
def test_two_webhooks_of_a_document_cannot_have_one_address(path: str) -> None:
    assert codes(signed(), signed(path=path)) == [("WEBHOOK_PATH_REPEATED", "/triggers/1/webhook/path")]
    assert codes(signed(), signed(path=path, method="PUT")) == []


@pytest.mark.parametrize("path", ["", "/", "a//b", "../x", "a/../b", ".hidden", "a b", "a?b", "ä", "a/", "%41"])
def test_paths_that_no_request_has_are_refused(path: str) -> None:
    assert ("INVALID_VALUE", "/triggers/0/webhook/path") in codes(signed(path=path))


def test_a_signal_needs_its_name_and_the_run() -> None:
    found = validate_document(document(signed(action="signal")))
    assert [finding.code for finding in found].count("MISSING_FIELD") == 2
    assert codes(signed(action="signal", signal="paid", run=".body.order")) == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"verify": {"strategy": "guess"}}, "INVALID_VALUE"),
        ({"verify": {"skew": "soon"}}, "INVALID_DURATION"),
        ({"verify": {"header": "X Y"}}, "INVALID_VALUE"),
        ({"verify": {"secret": "x"}}, "UNKNOWN_FIELD"),
        ({"schema": {"type": "strange"}}, "INVALID_SCHEMA"),
        ({"run": "("}, "JQ_INVALID"),
        ({"run": "now"}, "JQ_FORBIDDEN"),
        ({"run": "${ .body }"}, "JQ_INVALID"),
    ],
)
def test_what_is_wrong_with_a_webhook_is_named(more: dict[str, Any], code: str) -> None:
    assert code in [found for found, _ in codes(signed(**more))]


def test_a_webhook_compiles_with_its_defaults() -> None:
    (trigger,) = webhook_triggers("orders", [{"webhook": signed(path="/hooks/a/b")}])
    assert (trigger.trigger_id, trigger.path, trigger.method, trigger.secret) == ("orders:0", "a/b", "POST", "KEY")
    assert (trigger.strategy, trigger.skew_ms, trigger.action, trigger.enabled) == ("hmac", 300_000, "start", True)
    assert trigger.is_signed
    assert trigger.input is None


def test_a_webhook_compiles_with_everything() -> None:
    given: dict[str, Any] = {
        "id": "pay",
        "enabled": False,
        "webhook": signed(
            method="PUT",
            verify={"strategy": "stripe", "header": "X-Sig", "skew": "1m"},
            action="signal",
            signal="paid",
            run=".body.id",
            dedupe=".body.id",
            filter=".body.ok",
            schema={"type": "object"},
        ),
        "input": {"amount": "${ .body.amount }"},
    }
    schedule: dict[str, Any] = {"schedule": {"cron": "0 2 * * *"}}
    (trigger,) = webhook_triggers("orders", [schedule, given])
    assert (trigger.trigger_id, trigger.enabled, trigger.method, trigger.signal) == ("pay", False, "PUT", "paid")
    assert (trigger.strategy, trigger.header, trigger.skew_ms) == ("stripe", "X-Sig", 60_000)
    assert trigger.run is not None
    assert trigger.run.text == ".body.id"
    assert trigger.schema is not None


@pytest.mark.parametrize(
    ("text", "path"), [("/hooks/a", "a"), ("a", "a"), ("/a/b/", "a/b"), ("//a", "a"), ("hooks/hooks/a", "hooks/a")]
)
def test_a_path_has_one_form(text: str, path: str) -> None:
    assert hook_path(text) == path
