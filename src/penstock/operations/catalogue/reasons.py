"""Reason codes: every code that a call may be refused with, whose fault it is, and what it means.

The documentation and the OpenAPI document are generated from this table. A test checks that no operation uses a code
that is not in it.

Above it: surfaces, documentation. Below it: `base.errors`.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.base.errors import (
    Conflict,
    CorruptHistory,
    Denied,
    LimitExceeded,
    NotFound,
    PenstockError,
    Rejected,
    Unavailable,
)
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.errors import INTERNAL_ERROR, mapping_of

__all__ = ["REASONS", "Reason", "reasons_of", "status_of"]


class Reason(NamedTuple):
    """Whose fault it is, and what it means."""

    kind: type[PenstockError]
    meaning: str


REASONS: dict[str, Reason] = {
    # Every call.
    "UNAUTHENTICATED": Reason(Denied, "No key was sent, or it is not valid."),
    "KEY_EXPIRED": Reason(Denied, "The key was valid until some time ago."),
    "KEY_REVOKED": Reason(Denied, "The key was revoked."),
    "SCOPE_REQUIRED": Reason(Denied, "The key lacks a scope that the operation needs."),
    "OPERATION_NOT_FOUND": Reason(NotFound, "There is no operation of that name."),
    "ROUTE_NOT_FOUND": Reason(NotFound, "Nothing is served at that path."),
    "METHOD_NOT_ALLOWED": Reason(Rejected, "The path exists, but not with this method."),
    "INVALID_ARGUMENTS": Reason(Rejected, "The arguments do not fit the schema; every violation is listed."),
    "ARGUMENTS_TOO_DEEP": Reason(Rejected, "The arguments are nested too deeply."),
    "UNKNOWN_PARAMETER": Reason(Rejected, "The query has a parameter that the operation does not know."),
    "REPEATED_PARAMETER": Reason(Rejected, "The query has a parameter twice that may stand there once."),
    "MALFORMED_JSON": Reason(Rejected, "The body is not JSON in UTF-8."),
    "MALFORMED_REQUEST": Reason(Rejected, "The request cannot be read as it is."),
    "UNSUPPORTED_MEDIA_TYPE": Reason(Rejected, "The body's media type is not one that the operation takes."),
    "TARGET_TOO_LONG": Reason(LimitExceeded, "Path and query are longer than the server takes."),
    "HEADERS_TOO_LARGE": Reason(LimitExceeded, "The headers are larger than the server takes."),
    "REQUEST_TIMEOUT": Reason(LimitExceeded, "The request did not arrive in time."),
    "BODY_TOO_LARGE": Reason(LimitExceeded, "The body is larger than the server takes."),
    "RATE_LIMITED": Reason(LimitExceeded, "Too many calls in a minute with one key; Retry-After says when to go on."),
    "CONCURRENCY_LIMITED": Reason(LimitExceeded, "Too many calls at once with one key."),
    "TOO_MANY_REQUESTS_IN_FLIGHT": Reason(LimitExceeded, "The server is answering as many requests as it can."),
    "IDEMPOTENCY_KEY_INVALID": Reason(Rejected, "The idempotency key is empty, too long, or not plain ASCII."),
    "IDEMPOTENCY_KEY_REUSED": Reason(Rejected, "The idempotency key was used with other arguments."),
    "IDEMPOTENCY_IN_FLIGHT": Reason(Conflict, "A call with this idempotency key is under way."),
    "CLIENT_DISCONNECTED": Reason(Unavailable, "The client left before the request was complete."),
    "INVALID_LIST_CURSOR": Reason(Rejected, "The cursor is not one that this list gave."),
    "PRECONDITION_FAILED": Reason(Conflict, "The thing was changed in between; its ETag is another one now."),
    "NOT_CONFIGURED": Reason(Unavailable, "This server is not configured for that."),
    "TEXT_NOT_UNICODE": Reason(Rejected, "A text has one half of a surrogate pair."),
    INTERNAL_ERROR: Reason(PenstockError, "A bug; the request id helps to find it."),
    # Workflows and tasks.
    "INVALID_DOCUMENT": Reason(Rejected, "The workflow document has mistakes; every one is listed."),
    "WORKFLOW_EXISTS": Reason(Conflict, "There is a workflow of that name."),
    "PACK_WORKFLOW_INVALID": Reason(Rejected, "A workflow of the OpenWOP wire has mistakes, or is more than a row."),
    "PACK_NODE_UNSUPPORTED": Reason(Rejected, "A workflow of the OpenWOP wire has a node that is not run here."),
    "PACK_PEER_DEPENDENCY_MISSING": Reason(Rejected, "A workflow of the OpenWOP wire needs MCP, which is not served."),
    "WORKFLOW_NOT_FOUND": Reason(NotFound, "There is no such workflow, or no such version of it."),
    "WORKFLOW_NAME_DIFFERS": Reason(Rejected, "The document has another name than the workflow to be changed."),
    "DOCUMENT_TOO_COSTLY": Reason(Rejected, "Checking the document takes more time or memory than there is for it."),
    "TASK_EXISTS": Reason(Conflict, "The workflow has a task of that id."),
    "TASK_NOT_FOUND": Reason(NotFound, "The workflow has no such task."),
    "TASK_ID_DIFFERS": Reason(Rejected, "The task has another id than the one to be changed."),
    # Executions.
    "EXECUTION_NOT_FOUND": Reason(NotFound, "There is no such execution."),
    "EXECUTION_ID_TAKEN": Reason(Conflict, "The id belongs to an execution of another workflow, input or origin."),
    "EXECUTION_NOT_ENDED": Reason(Conflict, "The execution still goes on, or another one needs it."),
    "INPUT_INVALID": Reason(Rejected, "The input does not fit the workflow's schema; every violation is listed."),
    "DURATION_INVALID": Reason(Rejected, "A text is not a duration."),
    "LABEL_RESERVED": Reason(Rejected, "A label has a name that is the server's."),
    "VALUE_NOT_JSON": Reason(Rejected, "A value cannot be kept as JSON."),
    "PAUSE_NOT_ALLOWED": Reason(Conflict, "The execution is paused already."),
    "RESUME_NOT_ALLOWED": Reason(Conflict, "The execution is not paused."),
    "CANCEL_NOT_ALLOWED": Reason(Conflict, "The execution has ended, or is being cancelled."),
    "RUN_ENDED": Reason(Conflict, "The execution has ended; nothing changes it any more."),
    "SIGNAL_NOT_AWAITING": Reason(Conflict, "The execution has ended; nobody would take the signal."),
    "SIGNAL_LIMIT_EXCEEDED": Reason(Conflict, "Too many signals wait in the execution."),
    "ANSWER_INVALID": Reason(Rejected, "The answer does not fit the question's schema; the question stays open."),
    "QUESTION_AMBIGUOUS": Reason(Rejected, "Several questions are open; the call does not say which it answers."),
    "ALREADY_ANSWERED": Reason(Conflict, "Somebody answered before; `details` says who and when."),
    "NO_OPEN_QUESTION": Reason(Conflict, "The execution asks nothing, or not there."),
    "PERSON_REQUIRED": Reason(Denied, "A question to a person was answered by a call of an MCP tool."),
    "NAME_TAKEN": Reason(
        Conflict, "A tool, prompt, resource or webhook has a name that belongs to another workflow of the tenant."
    ),
    "APPROVER_REQUIRED": Reason(Denied, "An approval was given by somebody whom the question does not name."),
    "ACTIVITY_SUBMIT_NOT_AWAITING": Reason(Conflict, "Nobody waits for the outcome of that activity."),
    "ACTIVITY_SUBMIT_NODE_MISMATCH": Reason(Conflict, "Another node waits for an outcome, not this one."),
    "ACTIVITY_RETRY_NOT_ALLOWED": Reason(Conflict, "The outcome of the activity is not in doubt."),
    "RETRY_NOT_ALLOWED": Reason(Conflict, "Nothing failed that could be tried again, or going on would build on it."),
    "RETRY_AMBIGUOUS": Reason(Rejected, "The outcome of several activities is unknown; the call does not say which."),
    "ACTIVITY_LEASED": Reason(Conflict, "Somebody else has the activity."),
    "ACTIVITY_LEASE_LOST": Reason(Conflict, "The lease ran out, and somebody else may have the activity."),
    "ACTIVITY_LEASE_NOT_ALLOWED": Reason(Conflict, "The server does the activities of this execution itself."),
    "ACTIVITY_OUTCOME_UNKNOWN": Reason(Conflict, "The activity may have happened; somebody has to decide."),
    "SUBMIT_VALIDATION_ERROR": Reason(Rejected, "The outcome of the activity cannot be kept."),
    "VALIDATION_ERROR": Reason(Rejected, "What was sent does not fit."),
    "FORK_POINT_INVALID": Reason(Rejected, "The history has no such record."),
    "JQ_INVALID": Reason(Rejected, "The jq expression cannot be compiled."),
    "JQ_FAILED": Reason(Rejected, "The jq expression failed on the execution's data."),
    "STREAM_EVENTS_UNKNOWN": Reason(Rejected, "A stream has no events of that type."),
    "STREAM_POSITION_INVALID": Reason(Rejected, "The stream cannot begin there."),
    "STREAMS_LIMITED": Reason(LimitExceeded, "Too many streams are open."),
    # Schedules.
    "SCHEDULE_NOT_FOUND": Reason(NotFound, "There is no such schedule."),
    "SCHEDULE_EXISTS": Reason(Conflict, "There is a schedule of that id."),
    "SCHEDULE_INVALID": Reason(Rejected, "The cron expression, time zone or a duration of the schedule is wrong."),
    "SCHEDULE_OF_DOCUMENT": Reason(Conflict, "The schedule is part of a workflow document, and is changed there."),
    "SCHEDULE_NOT_STARTED": Reason(Conflict, "The schedule's rules did not let an execution start."),
    "SCHEDULES_LIMITED": Reason(LimitExceeded, "The tenant has as many schedules as it may have."),
    # The published control plane; the published error is in `error`.
    "DUPLICATE_EXECUTION_ID": Reason(Conflict, "There is a run of that id."),
    "INVALID_RESUME_PAYLOAD": Reason(Rejected, "The answer does not fit, or no such question is open."),
    "SIGNAL_VALIDATION_ERROR": Reason(Rejected, "The signal is not complete, or is for another definition."),
    "CANCEL_VALIDATION_ERROR": Reason(Rejected, "The call does not name a run."),
    "ACTIVITY_SUBMIT_PARALLEL_MISMATCH": Reason(Rejected, "The branch is not the one of the pending activity."),
    "ENGINE_FAILURE": Reason(Conflict, "The run failed; `error.details` says where and why."),
    # The OpenWOP wire; it has its own codes beside these.
    "TENANT_DIFFERS": Reason(Denied, "The request names another tenant than the key's."),
    "ENGINE_VERSION_FORCED": Reason(Denied, "The request asks for a version of the engine, which nobody may choose."),
    # Keys.
    "KEY_NOT_FOUND": Reason(NotFound, "There is no such key."),
    "KEY_NOT_ACTIVE": Reason(Conflict, "The key was revoked or replaced, or has expired."),
    "KEY_BEYOND_YOURS": Reason(Denied, "The new key would offer more tools, or be valid for longer, than yours."),
    "SCOPE_INVALID": Reason(Rejected, "A scope is not written as scopes are."),
    # Registries.
    "SCHEMA_EXISTS": Reason(Conflict, "There is a schema of that id."),
    "SCHEMA_NOT_FOUND": Reason(NotFound, "There is no such schema."),
    "SCHEMA_INVALID": Reason(Rejected, "What was sent is not a JSON Schema that can be used."),
    "MODEL_EXISTS": Reason(Conflict, "There is a model of that id."),
    "MODEL_NOT_FOUND": Reason(NotFound, "There is no such model."),
    "TOOL_EXISTS": Reason(Conflict, "There is a tool of that id."),
    "TOOL_NOT_FOUND": Reason(NotFound, "There is no such tool."),
    "TOOL_INVALID": Reason(Rejected, "The members of the tool contradict each other."),
    "AGENT_EXISTS": Reason(Conflict, "There is an agent of that id."),
    "AGENT_NOT_FOUND": Reason(NotFound, "There is no such agent."),
    # Other MCP servers.
    "UPSTREAM_NOT_FOUND": Reason(NotFound, "There is no such server, or none of its tools are imported."),
    "UPSTREAM_TOOL_NOT_FOUND": Reason(NotFound, "The server has no such tool."),
    "UPSTREAM_TOOL_EXCLUDED": Reason(Conflict, "The settings do not import the tool."),
    "UPSTREAM_TOOL_QUARANTINED": Reason(Conflict, "The server describes the tool otherwise than it was accepted."),
    "UPSTREAM_UNAVAILABLE": Reason(Unavailable, "The server cannot be reached."),
    # Webhooks.
    "WEBHOOK_NOT_FOUND": Reason(NotFound, "There is no such webhook."),
    "WEBHOOK_URL_INVALID": Reason(Rejected, "Events cannot or may not be sent to the address."),
    "WEBHOOK_DISABLED": Reason(Conflict, "The webhook is disabled."),
    "WEBHOOKS_LIMITED": Reason(LimitExceeded, "The tenant has as many webhooks as it may have."),
    "WEBHOOK_PATH_TAKEN": Reason(Conflict, "Several workflows have the address, so that none is started by it."),
    "WEBHOOK_SIGNATURE_MISSING": Reason(Denied, "The request is not signed."),
    "WEBHOOK_SIGNATURE_INVALID": Reason(Denied, "The signature does not match the body and the secret."),
    "WEBHOOK_SIGNATURE_EXPIRED": Reason(Denied, "The signature is too old, or of a time to come."),
    "WEBHOOK_SECRET_MISSING": Reason(Unavailable, "The secret of the webhook is not configured."),
    "WEBHOOK_BODY_INVALID": Reason(Rejected, "The body does not fit the webhook's schema; every violation is listed."),
    "WEBHOOK_EXPRESSION_FAILED": Reason(Rejected, "An expression of the webhook fails on the request."),
    "WEBHOOK_MAKER_UNKNOWN": Reason(Denied, "Whoever stored the workflow of the webhook is not known any more."),
    "WEBHOOK_RUN_INVALID": Reason(Rejected, "What the webhook reads from the request is not the id of a run."),
    "DELIVERY_NOT_FOUND": Reason(NotFound, "There is no such delivery, or it was forgotten."),
    # The store.
    "STORE_BUSY": Reason(Unavailable, "Another process holds the store."),
    "AUDIT_UNAVAILABLE": Reason(Unavailable, "The audit record of the call cannot be written, so nothing was done."),
    "STORE_FULL": Reason(Unavailable, "The disk is full; nothing was lost."),
    "STORE_READ_ONLY": Reason(Unavailable, "The store cannot be written."),
    "STORE_CORRUPT": Reason(CorruptHistory, "The store is damaged."),
    "PAYLOAD_CHANGED": Reason(CorruptHistory, "A large value in the store is not what its hash stands for."),
    "PAYLOAD_MISSING": Reason(CorruptHistory, "A large value is not in the store."),
}

_EVERY_CALL = (
    "UNAUTHENTICATED",
    "KEY_EXPIRED",
    "KEY_REVOKED",
    "INVALID_ARGUMENTS",
    "ARGUMENTS_TOO_DEEP",
    "RATE_LIMITED",
    "CONCURRENCY_LIMITED",
    "TOO_MANY_REQUESTS_IN_FLIGHT",
    INTERNAL_ERROR,
)
_ROUTED = (
    "UNKNOWN_PARAMETER",
    "REPEATED_PARAMETER",
    "MALFORMED_REQUEST",
    "REQUEST_TIMEOUT",
    "TARGET_TOO_LONG",
    "HEADERS_TOO_LARGE",
)
_WITH_BODY = ("MALFORMED_JSON", "UNSUPPORTED_MEDIA_TYPE", "BODY_TOO_LARGE")
_WRITES = ("IDEMPOTENCY_KEY_INVALID", "IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_IN_FLIGHT")


def reasons_of(capability: Capability) -> tuple[str, ...]:
    """Return every code that a call of a capability may be refused with, its own codes first."""
    found = [*capability.errors, *_EVERY_CALL]
    if capability.governance.scopes:
        found.append("SCOPE_REQUIRED")
    if not capability.annotations.read_only:
        found.extend(_WRITES)
    route = capability.route
    if route is not None:
        found.extend(_ROUTED)
        if route.method in ("POST", "PUT", "PATCH"):
            found.extend(_WITH_BODY)
    return tuple(dict.fromkeys(found))


def status_of(code: str) -> int:
    """Return the HTTP status of a code."""
    return mapping_of(REASONS[code].kind(code, "")).status
