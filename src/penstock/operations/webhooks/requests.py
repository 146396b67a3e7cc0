"""A received webhook as data: what its expressions see, and what they make of it.

The body is decoded according to its media type. The content of a request is a stranger's data, even if its signature is
valid: it becomes input or payload and nothing else.

Above it: `receiver`. Below it: `definitions` (expressions, templates, schemas).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

import msgspec

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.base.traces import trace_id_of
from penstock.definitions.canonical import canonical_json
from penstock.definitions.jq.expressions import EvaluationFailed, Evaluator, Expression
from penstock.definitions.jq.templates import render
from penstock.definitions.schemas.misfits import tell_violations, unfit_message
from penstock.definitions.secret_answers import secrets_in, without_values_of
from penstock.definitions.webhooks import WebhookTrigger
from penstock.operations.runs.fields import CHOSEN_ID

__all__ = ["HookRequest", "InterpretedRequest", "interpret"]

_RUN_ID = re.compile(CHOSEN_ID)
# Headers that say something about a delivery, and those that proxies usually add. Any other header may carry a
# credential or a signature under any name, and those must not end up in a history. So it is neither stored nor visible
# to expressions.
_KEPT_HEADERS = frozenset(
    {
        "accept",
        "accept-language",
        "content-length",
        "content-type",
        "date",
        "host",
        "idempotency-key",
        "origin",
        "referer",
        "traceparent",
        "user-agent",
        "x-correlation-id",
        "x-request-id",
        "x-event-key",
        "x-hook-uuid",
        "x-request-uuid",
        "x-slack-request-timestamp",
        "x-slack-retry-num",
        "x-slack-retry-reason",
        "x-shopify-topic",
        "x-shopify-shop-domain",
        "x-shopify-webhook-id",
    }
)
# CloudEvents, Standard Webhooks, and senders that describe the event in several headers of their own.
_KEPT_PREFIXES = ("ce-", "webhook-", "svix-", "linear-", "sentry-hook-", "x-github-", "x-gitlab-", "x-penstock-")
_SECRET_WORDS = ("signature", "token", "secret", "key", "auth", "password", "cookie", "session")
_FORM = "application/x-www-form-urlencoded"
_FORM_FIELDS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRequest:
    """A request as it arrived. `path` is what follows /hooks/; header names are in lower case."""

    path: str
    method: str
    headers: Mapping[str, str]
    query_string: str
    body: bytes
    request_id: str
    remote: str | None = None

    @property
    def client(self) -> str | None:
        """The program that sent it, as it names itself."""
        return self.headers.get("user-agent")

    @property
    def trace_id(self) -> str | None:
        """The trace that the sender named."""
        return trace_id_of(self.traceparent)

    @property
    def traceparent(self) -> str | None:
        """The sender's span as it was sent."""
        return self.headers.get("traceparent")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretedRequest:
    """What a trigger makes of a request; `passes` is False if its filter rejects the request."""

    passes: bool
    dedupe: str | None = None
    run_id: str | None = None
    payload: JsonValue = None


def interpret(trigger: WebhookTrigger, request: HookRequest, evaluator: Evaluator) -> InterpretedRequest:
    """Decode a request and evaluate the trigger's expressions on it; raise `Rejected` if it does not fit."""
    root = _root(trigger, request)
    _check_body(trigger, root["body"], evaluator)
    if trigger.filter is not None and _value("filter", trigger.filter, root, evaluator) in (False, None):
        return InterpretedRequest(passes=False)
    dedupe = None if trigger.dedupe is None else _value("dedupe", trigger.dedupe, root, evaluator)
    return InterpretedRequest(
        passes=True,
        dedupe=None if dedupe is None else hashlib.sha256(canonical_json(dedupe, exact_integers=True)).hexdigest(),
        run_id=_run_id(trigger, root, evaluator),
        payload=_payload(trigger, root, evaluator),
    )


def _is_harmless(name: str) -> bool:
    if name in _KEPT_HEADERS:
        return True
    return name.startswith(_KEPT_PREFIXES) and not any(word in name for word in _SECRET_WORDS)


def _root(trigger: WebhookTrigger, request: HookRequest) -> JsonObject:
    signed = (trigger.header or "").lower()
    headers: JsonObject = {
        name: value for name, value in request.headers.items() if name != signed and _is_harmless(name)
    }
    try:
        query = parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=_FORM_FIELDS_MAX)
    except ValueError:
        raise Rejected("MALFORMED_REQUEST", "the query has too many parameters", "send less") from None
    return {
        "body": _body(request),
        "headers": headers,
        "query": dict(query),
        "method": request.method,
        "path": request.path,
    }


def _body(request: HookRequest) -> JsonValue:
    if not request.body:
        return None
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type in ("", "application/json") or media_type.endswith("+json"):
        return _json(request.body)
    if media_type != _FORM and not media_type.startswith("text/"):
        message = f"{media_type[:80]!r} is not a media type that webhooks accept"
        raise Rejected("UNSUPPORTED_MEDIA_TYPE", message, "send application/json")
    try:
        text = request.body.decode()
        form = parse_qsl(text, keep_blank_values=True, max_num_fields=_FORM_FIELDS_MAX) if media_type == _FORM else []
    except ValueError:  # includes invalid UTF-8
        raise Rejected("MALFORMED_REQUEST", "the body is not UTF-8, or has too many fields", "send JSON") from None
    return dict(form) if media_type == _FORM else text


def _json(body: bytes) -> JsonValue:
    try:
        value: JsonValue = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Rejected("MALFORMED_JSON", "the body is not JSON", "send JSON in UTF-8") from None
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        message = f"the body is nested deeper than {limits.JSON_DEPTH_MAX} levels"
        raise Rejected("ARGUMENTS_TOO_DEEP", message, "send a value with fewer levels")
    return value


def _check_body(trigger: WebhookTrigger, body: JsonValue, evaluator: Evaluator) -> None:
    if trigger.schema is None:
        return
    found = evaluator.violations(trigger.schema, body)
    if found:
        shown = without_values_of(found, secrets_in(trigger.schema, body))
        listed = tell_violations(trigger.schema.schema, shown)
        message = unfit_message("the body does not fit:", listed)
        raise Rejected("WEBHOOK_BODY_INVALID", message, "correct the fields that `errors` lists", {"errors": listed})


def _value(name: str, expression: Expression, root: JsonObject, evaluator: Evaluator) -> JsonValue:
    found = evaluator.evaluate(expression, root)
    if isinstance(found, EvaluationFailed):
        raise _failed(name, found)
    return found.value


def _failed(name: str, found: EvaluationFailed) -> Rejected:
    message = f"the webhook's {name} cannot be computed for this request: {found.message}"
    return Rejected("WEBHOOK_EXPRESSION_FAILED", message, "send the fields that the workflow reads")


def _run_id(trigger: WebhookTrigger, root: JsonObject, evaluator: Evaluator) -> str | None:
    if trigger.run is None:
        return None
    found = _value("run", trigger.run, root, evaluator)
    text = str(found) if isinstance(found, int) and not isinstance(found, bool) else found
    if not isinstance(text, str) or not _RUN_ID.fullmatch(text):
        message = "the value that this request gives for the webhook's `run` is not a run id"
        raise Rejected("WEBHOOK_RUN_INVALID", message, "send a run id: at most 128 letters, digits, `_`, `.` and `-`")
    return text


def _payload(trigger: WebhookTrigger, root: JsonObject, evaluator: Evaluator) -> JsonValue:
    if trigger.input is None:
        return root["body"]
    rendered = render(trigger.input, root, evaluator)
    if isinstance(rendered, EvaluationFailed):
        raise _failed("input", rendered)
    return rendered.value
