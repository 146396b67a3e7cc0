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
from penstock.operations.catalogue.errors import INTERNAL_ERROR, OUT_OF_MEMORY, mapping_of

__all__ = ["REASONS", "SIGNATURE_ERRORS", "Reason", "reasons_of", "status_of"]


class Reason(NamedTuple):
    """Whose fault it is, and what it means."""

    kind: type[PenstockError]
    meaning: str


SIGNATURE_ERRORS = ("SIGNATURE_REQUIRED", "SIGNATURE_INVALID", "SIGNER_NOT_TRUSTED", "VERSION_PROPOSED")
"""Why a workflow is neither stored nor started: where workflows have to be signed, and if it is only proposed."""

REASONS: dict[str, Reason] = {
    # Every call.
    "UNAUTHENTICATED": Reason(Denied, "No key was sent, or it is not valid."),
    "KEY_EXPIRED": Reason(Denied, "The key was valid until some time ago."),
    "KEY_REVOKED": Reason(Denied, "The key was revoked."),
    "TOKEN_INVALID": Reason(Denied, "The access token is not one that this server accepts; the message says why."),
    "TOKEN_EXPIRED": Reason(Denied, "The access token has expired."),
    "TOKEN_REVOKED": Reason(Denied, "The access token, or everything of its subject, was revoked on this server."),
    "CREDENTIALS_AMBIGUOUS": Reason(Rejected, "The request has more than one credential, such as a key and a token."),
    "ISSUER_UNAVAILABLE": Reason(Unavailable, "The issuer of the access token cannot be asked at the moment."),
    "SCOPE_REQUIRED": Reason(Denied, "The key lacks a scope that the operation needs."),
    "POLICY_DENIED": Reason(Denied, "A policy forbids the call, or none permits it; no further scope would help."),
    "FIELDS_HIDDEN": Reason(Denied, "The answer would show fields that a policy hides, where they cannot be left out."),
    "APPROVAL_REQUIRED": Reason(Denied, "A policy lets the call be made only once people have approved it."),
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
    "RATE_LIMITED": Reason(
        LimitExceeded,
        "Too many calls in a minute by a key, a tenant or a sender, or of a workflow; Retry-After says when to go on.",
    ),
    "QUOTA_EXCEEDED": Reason(
        LimitExceeded, "A tenant or a key has used what it may: runs, tokens, cost or storage; the details say which."
    ),
    "MEMORY_FULL": Reason(LimitExceeded, "The memory of a session, a principal or a tenant has no room for the entry."),
    "MEMORY_VALUE_TOO_LARGE": Reason(LimitExceeded, "The value is larger than what is remembered at once."),
    "MEMORY_NOT_FOUND": Reason(NotFound, "Nothing is remembered under this key."),
    "SESSION_REQUIRED": Reason(Rejected, "The call is about a session, and says not which."),
    "SESSION_UNEXPECTED": Reason(Rejected, "The call names a session, and is about something else."),
    "QUOTA_NOT_FOUND": Reason(NotFound, "These quotas were not changed."),
    "OPERATOR_REQUIRED": Reason(Denied, "Only the operator of the server may do this."),
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
    "TEST_CASE_NOT_FOUND": Reason(NotFound, "The workflow has no test case of that name."),
    "SIGNATURE_REQUIRED": Reason(Rejected, "The workflow is not signed, and only signed ones are taken here."),
    "SIGNATURE_INVALID": Reason(Rejected, "The workflow was changed after it was signed, or its signature is none."),
    "VERSION_PROPOSED": Reason(
        Denied, "An agent wrote the version, and nobody has accepted it yet; it has no effect until a person does."
    ),
    "SIGNER_NOT_TRUSTED": Reason(Rejected, "The workflow is signed with a key that is not trusted here."),
    "WORKFLOW_EXISTS": Reason(Conflict, "There is a workflow of that name."),
    "PACK_WORKFLOW_INVALID": Reason(Rejected, "A workflow of the OpenWOP wire has mistakes, or is more than a row."),
    "PACK_NODE_UNSUPPORTED": Reason(Rejected, "A workflow of the OpenWOP wire has a node that is not run here."),
    "PACK_PEER_DEPENDENCY_MISSING": Reason(Rejected, "A workflow of the OpenWOP wire needs MCP, which is not served."),
    "WORKFLOW_NOT_FOUND": Reason(NotFound, "There is no such workflow, or no such version of it."),
    "WORKFLOW_NAME_DIFFERS": Reason(Rejected, "The document has another name than the workflow to be changed."),
    "DOCUMENT_TOO_COSTLY": Reason(Rejected, "Checking the document takes more time or memory than there is for it."),
    "TASK_EXISTS": Reason(Conflict, "The workflow has a task of that id."),
    "TASK_NOT_EXECUTABLE": Reason(Rejected, "The node does no work by itself; the message says which do."),
    "TASK_NOT_FOUND": Reason(NotFound, "The workflow has no such task."),
    "TASK_ID_DIFFERS": Reason(Rejected, "The task has another id than the one to be changed."),
    # Held calls.
    "DRAFT_NOT_FOUND": Reason(NotFound, "There is no such draft."),
    "DRAFT_FINAL": Reason(Conflict, "The draft is decided, or has expired; it can be proposed again."),
    "WITNESS_MISMATCH": Reason(Conflict, "The state that the caller looked at has changed."),
    "WITNESS_UNSUPPORTED": Reason(Conflict, "The operation has no state whose hash could be compared."),
    "DRAFT_FAILED": Reason(Conflict, "The draft was approved, and its call was refused or failed when it was made."),
    "DRAFT_NOT_YOURS": Reason(Denied, "Somebody else proposed the draft."),
    "DRAFT_DRIFTED": Reason(
        Conflict, "What the call would do, or can reach, has changed since it was proposed; it was not made."
    ),
    "REACH_TOO_LARGE": Reason(Rejected, "The call can reach more than an approval could be bound to."),
    "DIGEST_MISMATCH": Reason(Rejected, "The digest is not that of the call."),
    "APPROVAL_EXPIRED": Reason(Conflict, "The call was approved too late."),
    "ALREADY_VOTED": Reason(Conflict, "The same person has voted before, and several have to agree."),
    "VOTES_DIFFER": Reason(Conflict, "The others have agreed to another answer."),
    "DRAFT_NOT_FINAL": Reason(Conflict, "The draft is not decided yet, or was made."),
    "HELD_CALL_FIXED": Reason(Conflict, "A held call cannot be forked or settled like that; propose it again."),
    "HELD_CALL_UNWANTED": Reason(Conflict, "The run that made the held call does not wait for it any more."),
    "PREFLIGHT_NOT_FOUND": Reason(Rejected, "The preflight was used, has expired, or is somebody else's."),
    "PREFLIGHT_MISMATCH": Reason(Rejected, "The preflight is of another call, or the state has changed since."),
    "PREFLIGHT_UNSUPPORTED": Reason(Rejected, "The operation decides about held calls; it cannot be looked at first."),
    "PREFLIGHT_NOT_NEEDED": Reason(Rejected, "The operation changes nothing, so there is nothing to look at first."),
    "GRANT_NOT_FOUND": Reason(NotFound, "There is no such grant."),
    "TOO_MANY_GRANTS": Reason(LimitExceeded, "There are as many grants as one tenant may have."),
    # Executions.
    "TASK_NOT_WITHDRAWN": Reason(Unavailable, "An outside agent could not be told that nobody answers its question."),
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
    "AUTHORITY_EXPIRED": Reason(Denied, "The maker of a schedule or webhook has no key, and made it too long ago."),
    "SECRET_INPUT_NOT_KEPT": Reason(Rejected, "The input has a secret in it, and is stored as it is for later starts."),
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
    "ISSUER_UNKNOWN": Reason(Rejected, "No issuer of that name is configured."),
    "CONSOLE_SESSION_NOT_FOUND": Reason(NotFound, "There is no such session of the console, or it is not yours."),
    "REVOCATION_NOT_FOUND": Reason(NotFound, "There is no such revocation of a token or subject."),
    "SCOPE_INVALID": Reason(Rejected, "A scope is not written as scopes are."),
    # The agent profile.
    "APP_NOT_FOUND": Reason(NotFound, "There is no such app."),
    "APP_ACTIVE": Reason(Conflict, "The app is active; it has to be revoked before it is deleted."),
    "APP_REVOKED": Reason(Conflict, "The app was revoked, and gets no new key."),
    "APP_HAS_DRAFTS": Reason(Conflict, "A draft of the app still waits for a decision."),
    "TRANSACTION_NOT_FOUND": Reason(NotFound, "The demo ledger has no such transaction."),
    # Policies.
    "POLICY_NOT_FOUND": Reason(NotFound, "There are no such policies."),
    "POLICIES_LIMITED": Reason(LimitExceeded, "The tenant has as many documents with policies as it may have."),
    "ACTION_NOT_FOUND": Reason(NotFound, "There is no operation, workflow or tool of that name."),
    "POLICY_INVALID": Reason(Rejected, "Policies have mistakes; every one is listed."),
    # Graphs.
    "GRAPH_NOT_FOUND": Reason(NotFound, "There is no such graph."),
    "GRAPH_EXISTS": Reason(Conflict, "There is a graph of that id."),
    "GRAPHS_LIMITED": Reason(LimitExceeded, "The tenant has as many graphs as it may have."),
    "GRAPH_QUARANTINED": Reason(Conflict, "The files of a configured graph have mistakes, so it is out of use."),
    "GRAPH_OF_SETTINGS": Reason(Conflict, "The settings of the server declare the graph, and it is changed there."),
    "GRAPH_FILES_INVALID": Reason(Rejected, "A file of a configured graph cannot be used."),
    "GRAPH_SCHEMA_INVALID": Reason(Rejected, "The schema of a graph has mistakes; every one is listed."),
    "GRAPH_SCHEMA_REFUSED": Reason(Conflict, "The data, or an unsupported step, do not let the schema be applied."),
    "GRAPH_CONSTRAINTS_VIOLATED": Reason(Rejected, "A change breaks constraints of the schema; they are listed."),
    "GRAPH_RECORDS_INVALID": Reason(Rejected, "Lines of a load cannot be read or do not fit the schema."),
    "BRANCH_NOT_FOUND": Reason(NotFound, "The graph has no such branch."),
    "BRANCH_EXISTS": Reason(Conflict, "The graph has a branch of that name."),
    "BRANCH_NAME_INVALID": Reason(Rejected, "The text is not a name for a branch, or one name is inside another."),
    "BRANCH_IN_USE": Reason(Conflict, "The branch is `main`, or others were forked from it."),
    "BRANCH_TOO_DEEP": Reason(Conflict, "The branch is forked from branches of branches, too many of them."),
    "BRANCH_BUSY": Reason(Conflict, "A load on the branch is under way."),
    "COMMIT_NOT_FOUND": Reason(NotFound, "The graph has no such commit, or it was collected."),
    "CHANGE_FEED_GAP": Reason(Conflict, "Commits after the cursor were collected; `details` says where to go on."),
    "MERGE_CONFLICTS": Reason(Conflict, "Two branches changed the same things differently; nothing was merged."),
    "QUERY_NOT_FOUND": Reason(NotFound, "The graph has no such stored query."),
    "QUERY_INVALID": Reason(Rejected, "A query has mistakes, or does not fit the schema; every one is listed."),
    "QUERY_NOT_SUPPORTED": Reason(Rejected, "The store cannot run the query exactly as it is meant."),
    "QUERY_LIMITED": Reason(LimitExceeded, "The query reached a limit of time, rows or memory, and was ended."),
    "ADHOC_NOT_ALLOWED": Reason(Denied, "The graph runs stored queries only."),
    # Registries.
    "SCHEMA_EXISTS": Reason(Conflict, "There is a schema of that id."),
    "SCHEMA_NOT_FOUND": Reason(NotFound, "There is no such schema."),
    "SCHEMA_VERSION_NOT_FOUND": Reason(NotFound, "The schema has no such version."),
    "SCHEMA_VERSIONS_FULL": Reason(LimitExceeded, "The schema has as many versions as are kept, all of them in use."),
    "SCHEMA_INVALID": Reason(Rejected, "What was sent is not a JSON Schema that can be used."),
    "MODEL_EXISTS": Reason(Conflict, "There is a model of that id."),
    "MODEL_IN_SETTINGS": Reason(Conflict, "The settings of the server have a model of that name, which counts first."),
    "MODEL_INVALID": Reason(Rejected, "The members of the model do not fit together; the message says which."),
    "MODEL_PROVIDER_UNKNOWN": Reason(Rejected, "Models of that provider are not supported; those that are are listed."),
    "MODEL_NOT_FOUND": Reason(NotFound, "There is no such model."),
    "TOOL_EXISTS": Reason(Conflict, "There is a tool of that id."),
    "TOOL_NOT_FOUND": Reason(NotFound, "There is no such tool."),
    "TOOL_INVALID": Reason(Rejected, "The tool cannot be called as it is registered; the message says why."),
    "TOOLS_LIMITED": Reason(LimitExceeded, "The tenant has as many registered tools as it may have."),
    "AGENT_EXISTS": Reason(Conflict, "There is an agent of that id."),
    "AGENT_CHANGED": Reason(Conflict, "The agent is not the version that the call names by its etag."),
    "AGENT_NOT_FOUND": Reason(NotFound, "There is no such agent."),
    "AGENT_NAME_TAKEN": Reason(Conflict, "Another agent has that name: an entry, a workflow, or one of the settings."),
    "AGENT_INVALID": Reason(Rejected, "The agent does not stand for a valid document; `findings` lists the mistakes."),
    "AGENT_TAKES_NO_MESSAGES": Reason(Rejected, "The agent has an input or a prompt of its own: it only does work."),
    "SESSION_NOT_FOUND": Reason(NotFound, "There is no such session, or it is somebody else's."),
    "SESSION_BUSY": Reason(Conflict, "A message of the session is not answered yet; `execution_id` answers it."),
    "SESSION_ENDED": Reason(Conflict, "The session has ended."),
    "SESSION_OF_ANOTHER_AGENT": Reason(Conflict, "The session is one with another agent."),
    # Other MCP servers.
    "UPSTREAM_NOT_FOUND": Reason(NotFound, "There is no such server, or none of its tools are imported."),
    "UPSTREAM_TOOL_NOT_FOUND": Reason(NotFound, "The server has no such tool."),
    "UPSTREAM_TOOL_EXCLUDED": Reason(Conflict, "The settings do not import the tool."),
    "UPSTREAM_TOOL_NOT_WAITING": Reason(
        Conflict, "The tool is neither new nor changed, so there is nothing to decide."
    ),
    "UPSTREAM_TOOL_QUARANTINED": Reason(Conflict, "The server describes the tool otherwise than it was accepted."),
    "UPSTREAM_UNAVAILABLE": Reason(Unavailable, "The server cannot be reached."),
    "UPSTREAM_SIGN_IN_REQUIRED": Reason(Conflict, "Somebody has to sign in to the server first."),
    "UPSTREAM_SIGN_IN_NOT_NEEDED": Reason(Conflict, "Nobody signs in to the server: it is used with our own client."),
    "UPSTREAM_SIGN_IN_REFUSED": Reason(Conflict, "The authorization server, or the person, refused the sign-in."),
    "SIGN_IN_NOT_FOUND": Reason(NotFound, "No sign-in has begun that the answer belongs to, or it took too long."),
    "UPSTREAM_AUTHORIZATION_FAILED": Reason(Conflict, "There is no token for the server, and a sign-in does not help."),
    "UPSTREAM_AUTHORIZATION_UNAVAILABLE": Reason(Unavailable, "The authorization server gives no token now."),
    # Webhooks.
    "WEBHOOK_NOT_FOUND": Reason(NotFound, "There is no such webhook."),
    "WEBHOOK_URL_INVALID": Reason(Rejected, "Events cannot or may not be sent to the address."),
    "WEBHOOK_OF_EXECUTION": Reason(Conflict, "The webhook is told of one execution and cannot be changed like others."),
    "NOTIFICATION_NOT_FOUND": Reason(NotFound, "Nobody is told of the execution under this id."),
    "NOTIFICATIONS_LIMITED": Reason(LimitExceeded, "So many are told of executions as may be."),
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
    # Backups that the server makes.
    "BACKUP_RUNNING": Reason(Conflict, "Another backup is being made; there is one at a time."),
    "BACKUP_EXISTS": Reason(Conflict, "There is a backup of that very moment; call again."),
    "BACKUP_FOLDER_FULL": Reason(Conflict, "The folder has as many backups as there may be."),
    "BACKUP_FOLDER_UNAVAILABLE": Reason(Unavailable, "The folder for backups does not exist, or cannot be read."),
    "BACKUP_NO_ROOM": Reason(Unavailable, "The disk of the folder for backups has no room for one."),
    # The store.
    "STORE_BUSY": Reason(Unavailable, "Another process holds the store."),
    "AUDIT_CHECKPOINT_INVALID": Reason(Rejected, "The text is not a signed checkpoint."),
    "AUDIT_CHECKPOINT_NOT_FOUND": Reason(
        NotFound, "The audit trail has no such checkpoint, or it does not cover that."
    ),
    "AUDIT_EXPORT_INVALID": Reason(Rejected, "A line of the file is not one of an exported audit trail."),
    "AUDIT_HOLDS_LIMIT": Reason(LimitExceeded, "The tenant has as many legal holds as there may be."),
    "AUDIT_HOLD_NOT_FOUND": Reason(NotFound, "There is no legal hold with this id."),
    "AUDIT_KEY_EXPOSED": Reason(Rejected, "Others can read the file with the key that signs checkpoints."),
    "AUDIT_KEY_UNAVAILABLE": Reason(Unavailable, "There is no key to sign checkpoints with, or it cannot be read."),
    "AUDIT_PUBLIC_KEY_INVALID": Reason(Rejected, "The file has no public key that verifies checkpoints."),
    "AUDIT_RECORD_NOT_FOUND": Reason(NotFound, "There is no audit record with this number."),
    "AUDIT_TRAIL_BROKEN": Reason(Conflict, "The audit trail was altered, and is neither signed nor proven."),
    "AUDIT_TRAIL_EMPTY": Reason(Rejected, "There are no audit records yet."),
    "AUDIT_UNAVAILABLE": Reason(Unavailable, "The audit record of the call cannot be written, so nothing was done."),
    "STORE_FULL": Reason(Unavailable, "The disk is full; nothing was lost."),
    "STORE_READ_ONLY": Reason(Unavailable, "The store cannot be written."),
    "DEFINITION_CHANGED": Reason(CorruptHistory, "The definition of a run was changed in the store."),
    "STORE_CORRUPT": Reason(CorruptHistory, "The store is damaged."),
    "PAYLOAD_CHANGED": Reason(CorruptHistory, "A large value in the store is not what its hash stands for."),
    "PAYLOAD_MISSING": Reason(CorruptHistory, "A large value is not in the store."),
    "PAGE_CHANGED": Reason(CorruptHistory, "A page of a run's history is not what was written."),
    "ROW_CHANGED": Reason(CorruptHistory, "A row of the store is not what was written."),
    "RECORD_MALFORMED": Reason(CorruptHistory, "A record of a run lacks what its name promises."),
    "SHAPE_CHANGED": Reason(CorruptHistory, "What many steps share in the store is not what its hash stands for."),
    "SHAPE_MISSING": Reason(CorruptHistory, "What a step shares with others is not in the store."),
    "INDEX_DIFFERS": Reason(CorruptHistory, "An index of the store differs from what it was made of."),
    "STORE_INCONSISTENT": Reason(CorruptHistory, "The store has rows that belong to nothing."),
    "AUDIT_CHAIN_BROKEN": Reason(CorruptHistory, "Audit records do not follow from each other."),
    "STORE_LOG_MISSING": Reason(Unavailable, "The write-ahead log of the store is gone, with what was only in it."),
    "STORE_LOG_CUT": Reason(Unavailable, "The write-ahead log was cut or changed; acknowledged commits are lost."),
    OUT_OF_MEMORY: Reason(Unavailable, "The server has no memory left for the call."),
    "STORE_MOVED": Reason(Unavailable, "The file of the store was moved or replaced while it was in use."),
    "STORE_CLOSED": Reason(Unavailable, "The store is closed; the process is about to end."),
    "STORE_UNSUITABLE": Reason(Unavailable, "The file system or the SQLite of this Python cannot hold a store."),
    "STORE_FOREIGN": Reason(Rejected, "The file is a database of another program."),
    "STORE_TOO_NEW": Reason(Rejected, "A newer release wrote the store."),
    "STORE_TOO_OLD": Reason(Rejected, "An older release wrote the store; open it once with this one."),
    "STORE_EMPTY": Reason(Rejected, "There is no store in the file."),
    "STORE_PATH_INVALID": Reason(Rejected, "The path of the store does not name a file."),
    "STORE_NOT_FOUND": Reason(NotFound, "There is no such file."),
    "STORE_EXISTS": Reason(Conflict, "There is a store already."),
    "STORE_IN_USE": Reason(Conflict, "Another process has the store open."),
    "BACKUP_ONTO_ITSELF": Reason(Rejected, "The backup and the store are the same file."),
    "FOLDER_NOT_FOUND": Reason(NotFound, "The folder does not exist."),
    "GRAPH_LOAD_ABANDONED": Reason(Conflict, "Somebody else abandoned the load."),
    "GRAPH_LOAD_PIECE_MAX": Reason(LimitExceeded, "A piece of a load has more records than one may have."),
    "GRAPH_MERGE_BASE_COLLECTED": Reason(Conflict, "The versions that the merge compares with were removed."),
    "INVALID_LIST_LIMIT": Reason(Rejected, "A page cannot have that many entries."),
    "SEARCH_TEXT_TOO_LONG": Reason(Rejected, "The text to search for is too long."),
}

_EVERY_CALL = (
    "UNAUTHENTICATED",
    "KEY_EXPIRED",
    "KEY_REVOKED",
    "POLICY_DENIED",
    "APPROVAL_REQUIRED",
    "INVALID_ARGUMENTS",
    "ARGUMENTS_TOO_DEEP",
    "RATE_LIMITED",
    "CONCURRENCY_LIMITED",
    "TOO_MANY_REQUESTS_IN_FLIGHT",
    OUT_OF_MEMORY,
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
# Of a call that says more about a change than its arguments do.
_INTENDED = (
    "PREFLIGHT_NOT_FOUND",
    "PREFLIGHT_MISMATCH",
    "REACH_TOO_LARGE",
    "WITNESS_MISMATCH",
    "WITNESS_UNSUPPORTED",
)


def reasons_of(capability: Capability) -> tuple[str, ...]:
    """Return every code that a call of a capability may be refused with, its own codes first."""
    found = [*capability.errors, *_EVERY_CALL]
    if capability.governance.scopes:
        found.append("SCOPE_REQUIRED")
    if not capability.annotations.read_only:
        found.extend(_WRITES)
        if capability.governance.holdable:
            found.extend(_INTENDED)
    route = capability.route
    if route is not None:
        found.extend(_ROUTED)
        if route.method in ("POST", "PUT", "PATCH"):
            found.extend(_WITH_BODY)
    return tuple(dict.fromkeys(found))


def status_of(code: str) -> int:
    """Return the HTTP status of a code."""
    return mapping_of(REASONS[code].kind(code, "")).status
