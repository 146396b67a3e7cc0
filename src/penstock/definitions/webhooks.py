"""Webhook triggers of a workflow, compiled: where requests arrive, how they are verified, and what they start.

Above it: `checks.triggers`, `operations.webhooks`. Below it: `jq.expressions`, `jq.templates`, `schemas.compiled`. It
verifies nothing and starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.jq.expressions import Expression, ExpressionProblem, load_expression
from penstock.definitions.jq.templates import SECRET_REFERENCE, Template, TemplateProblem, load_template
from penstock.definitions.schemas.compiled import CompiledSchema, SchemaProblem, load_schema

__all__ = ["WebhookTrigger", "hook_path", "webhook_triggers"]

_PREFIX = "hooks/"
_STRATEGIES: dict[str, Literal["hmac", "github", "stripe", "standard", "none"]] = {
    "hmac": "hmac",
    "github": "github",
    "stripe": "stripe",
    "standard": "standard",
    "none": "none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTrigger:
    """One webhook. Without a secret, or with the strategy `none`, requests prove nothing about their sender."""

    trigger_id: str
    enabled: bool
    path: str
    method: str
    secret: str | None
    strategy: Literal["hmac", "github", "stripe", "standard", "none"]
    header: str | None
    skew_ms: int
    schema: CompiledSchema | None
    dedupe: Expression | None
    filter: Expression | None
    action: Literal["start", "signal"]
    run: Expression | None
    signal: str | None
    input: Template | None

    @property
    def is_signed(self) -> bool:
        """Whether requests must be signed."""
        return self.secret is not None and self.strategy != "none"


def hook_path(text: str) -> str:
    """Normalise a path, as written in a document or a request: no surrounding slashes and no /hooks prefix."""
    return re.sub("/+", "/", text.strip("/")).removeprefix(_PREFIX)


def webhook_triggers(workflow_name: str, triggers: Iterable[JsonObject]) -> Iterator[WebhookTrigger]:
    """Compile the webhooks among the triggers of a checked document."""
    for number, trigger in enumerate(triggers):
        webhook = trigger.get("webhook")
        if isinstance(webhook, dict):
            trigger_id = trigger.get("id")
            yield _compiled(
                trigger_id if isinstance(trigger_id, str) else f"{workflow_name}:{number}", trigger, webhook
            )


def _compiled(trigger_id: str, trigger: JsonObject, webhook: JsonObject) -> WebhookTrigger:
    verify = webhook.get("verify")
    settings: JsonObject = verify if isinstance(verify, dict) else {}
    reference = SECRET_REFERENCE.fullmatch(str(webhook.get("secret") or ""))
    skew = settings.get("skew")
    skew_ms = parse_native_duration_ms(skew) if isinstance(skew, str | int) else None
    return WebhookTrigger(
        trigger_id=trigger_id,
        enabled=trigger.get("enabled") is not False,
        path=hook_path(str(webhook.get("path"))),
        method=_text(webhook.get("method")) or "POST",
        secret=None if reference is None else reference[1],
        strategy=_STRATEGIES.get(str(settings.get("strategy")), "hmac"),
        header=_text(settings.get("header")),
        skew_ms=limits.WEBHOOK_SKEW_MS if skew_ms is None else skew_ms,
        schema=_schema(webhook.get("schema")),
        dedupe=_expression(webhook.get("dedupe")),
        filter=_expression(webhook.get("filter")),
        action="signal" if webhook.get("action") == "signal" else "start",
        run=_expression(webhook.get("run")),
        signal=_text(webhook.get("signal")),
        input=_template(trigger["input"]) if "input" in trigger else None,
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _expression(value: JsonValue) -> Expression | None:
    if not isinstance(value, str):
        return None
    compiled = load_expression(value)
    if isinstance(compiled, ExpressionProblem):
        raise Rejected("INVALID_DOCUMENT", compiled.message, compiled.hint)
    return compiled


def _template(value: JsonValue) -> Template:
    compiled = load_template(value)
    if isinstance(compiled, TemplateProblem):
        raise Rejected("INVALID_DOCUMENT", compiled.message, compiled.hint)
    return compiled


def _schema(value: JsonValue) -> CompiledSchema | None:
    if not isinstance(value, dict):
        return None
    compiled = load_schema(value)
    if isinstance(compiled, SchemaProblem):
        raise Rejected("INVALID_DOCUMENT", compiled.message)
    return compiled
