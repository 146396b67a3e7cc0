"""Codes of any call: who calls, what may be done, how the request is written, and how much there may be.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, PenstockError, Reason, Rejected, Unavailable
from penstock.operations.catalogue.errors import INTERNAL_ERROR, OUT_OF_MEMORY

__all__ = ["ACCESS", "CAPACITY", "KEYS", "POLICIES", "REQUESTS"]

ACCESS: Mapping[str, Reason] = {
    "UNAUTHENTICATED": Reason(
        Denied,
        "The request has no key, or the key is not valid.",
        "Send a key as `Authorization: Bearer pen_…`; an owner creates one with `key.create`.",
    ),
    "KEY_EXPIRED": Reason(Denied, "The key has expired.", "Ask an owner for a new key, who runs `key.create`."),
    "KEY_REVOKED": Reason(Denied, "The key was revoked.", "Ask an owner for a new key, who runs `key.create`."),
    "TOKEN_INVALID": Reason(
        Denied,
        "This server does not accept the access token; the message says why.",
        "Request a token for this server from an issuer that `auth.oauth.issuers` lists.",
    ),
    "TOKEN_EXPIRED": Reason(
        Denied, "The access token has expired.", "Sign in again at the issuer, and request a new token."
    ),
    "TOKEN_REVOKED": Reason(
        Denied,
        "An operator of this server revoked the token, or all tokens of its subject.",
        "Ask an owner, who lifts it with `token.restore`.",
    ),
    "CREDENTIALS_AMBIGUOUS": Reason(
        Rejected,
        "The request has more than one credential, such as a key and a token.",
        "Send exactly one `Authorization` header.",
    ),
    "ISSUER_UNAVAILABLE": Reason(
        Unavailable,
        "The issuer of the access token does not respond.",
        "Try again in a minute; `penstock mcp doctor` checks the connection to the issuer.",
    ),
    "SCOPE_REQUIRED": Reason(
        Denied,
        "The key or token lacks a scope that the call needs.",
        "Use a key with the scope that the message names; an owner creates one with `key.create`.",
    ),
    "POLICY_DENIED": Reason(
        Denied,
        "A policy forbids the call, or no policy permits it; another scope would not help.",
        "Ask an owner which policy decided; `policy.explain` shows it.",
    ),
    "FIELDS_HIDDEN": Reason(
        Denied,
        "The answer would show fields that a policy hides, and they cannot be left out there.",
        "Ask for fields that you may see; `policy.explain` names the policy.",
    ),
    "APPROVAL_REQUIRED": Reason(
        Denied,
        "A policy allows the call only after people have approved it.",
        "Propose the call with `draft.propose`, and wait for the approval.",
    ),
    "OPERATOR_REQUIRED": Reason(
        Denied, "Only the operator of the server may do this.", "Ask the operator of the server to run it."
    ),
    "TENANT_DIFFERS": Reason(
        Denied,
        "The request names another tenant than that of the key.",
        "Leave the tenant out, or use a key of that tenant.",
    ),
    "ENGINE_VERSION_FORCED": Reason(
        Denied,
        "The request asks for a version of the engine; callers cannot choose one.",
        "Remove the engine version from the request.",
    ),
}

KEYS: Mapping[str, Reason] = {
    "KEY_NOT_FOUND": Reason(NotFound, "The key does not exist.", "List the keys with `key.list`."),
    "KEY_NOT_ACTIVE": Reason(
        Conflict, "The key was revoked or replaced, or has expired.", "Create a new key with `key.create`."
    ),
    "KEY_BEYOND_YOURS": Reason(
        Denied,
        "The new key would offer more tools or groups than yours, or be valid for longer.",
        "Ask for less, or ask an owner to create the key.",
    ),
    "ISSUER_UNKNOWN": Reason(
        Rejected,
        "No issuer with this name is configured.",
        "Use the name or address of an issuer from `auth.oauth.issuers`.",
    ),
    "CONSOLE_SESSION_NOT_FOUND": Reason(
        NotFound,
        "The console session does not exist, or belongs to another person.",
        "List your sessions with `console_session.list`.",
    ),
    "REVOCATION_NOT_FOUND": Reason(
        NotFound,
        "Neither the token nor its subject is revoked.",
        "List the revocations with `token.list_revoked`.",
    ),
    "SCOPE_INVALID": Reason(
        Rejected,
        "The text is not a scope.",
        "Write words joined by dots or colons, such as `workflow:read` or `execution:*`.",
    ),
    "AUTHORITY_EXPIRED": Reason(
        Denied,
        "The person who made the schedule or webhook has no key, and their authority has lapsed.",
        "Store the schedule or webhook again, or raise `auth.oauth.standing_authority`.",
    ),
}

POLICIES: Mapping[str, Reason] = {
    "POLICY_NOT_FOUND": Reason(
        NotFound, "The policy document does not exist.", "List the documents with `policy.list`."
    ),
    "POLICIES_LIMITED": Reason(
        LimitExceeded,
        "The tenant has as many policy documents as it may have.",
        "Put several policies into one document, or delete one with `policy.delete`.",
    ),
    "ACTION_NOT_FOUND": Reason(
        NotFound,
        "No operation, workflow or tool has this name.",
        "List the operations with `system.operations`, and the workflows with `workflow.list`.",
    ),
    "POLICY_INVALID": Reason(
        Rejected,
        "The policies have mistakes; the answer lists all of them.",
        "Correct them; `policy.check` checks again.",
    ),
}

REQUESTS: Mapping[str, Reason] = {
    "OPERATION_NOT_FOUND": Reason(
        NotFound, "No operation has this name.", "List the operations with `system.operations`."
    ),
    "ROUTE_NOT_FOUND": Reason(
        NotFound, "Nothing is served at this path.", "Look up the path in `/api/v0/openapi.json` or the REST reference."
    ),
    "METHOD_NOT_ALLOWED": Reason(
        Rejected, "The path does not support this HTTP method.", "Use a method that the `Allow` header lists."
    ),
    "INVALID_ARGUMENTS": Reason(
        Rejected,
        "The arguments do not match the schema; `errors` lists every violation.",
        "Correct the fields that `errors` lists, and send the call again.",
    ),
    "ARGUMENTS_TOO_DEEP": Reason(
        Rejected, "The arguments are nested too deeply.", "Send objects and lists with fewer levels."
    ),
    "UNKNOWN_PARAMETER": Reason(
        Rejected, "The operation has no such query parameter.", "Remove the parameter, or correct its name."
    ),
    "REPEATED_PARAMETER": Reason(
        Rejected, "A query parameter is given twice but takes one value.", "Send the parameter once."
    ),
    "MALFORMED_JSON": Reason(Rejected, "The body is not JSON in UTF-8.", "Send the body as JSON in UTF-8."),
    "MALFORMED_REQUEST": Reason(
        Rejected, "The request cannot be parsed.", "Correct the part of the request that the message names."
    ),
    "UNSUPPORTED_MEDIA_TYPE": Reason(
        Rejected, "The operation does not accept the body's media type.", "Send `Content-Type: application/json`."
    ),
    "REQUEST_TIMEOUT": Reason(
        LimitExceeded, "The request did not arrive in time.", "Send it faster, or split it into several calls."
    ),
    "TARGET_TOO_LONG": Reason(
        LimitExceeded,
        "The path and query are too long.",
        "Shorten the query, or split it into several calls.",
    ),
    "HEADERS_TOO_LARGE": Reason(
        LimitExceeded, "The headers are too large.", "Send fewer or shorter headers; cookies count too."
    ),
    "BODY_TOO_LARGE": Reason(
        LimitExceeded,
        "The body is too large.",
        "Send less at once; `server.max_body_bytes` sets the limit.",
    ),
    "IDEMPOTENCY_KEY_INVALID": Reason(
        Rejected, "The idempotency key is empty, too long, or not plain ASCII.", "Send a UUID as `Idempotency-Key`."
    ),
    "IDEMPOTENCY_KEY_REUSED": Reason(
        Rejected,
        "The idempotency key belongs to a call with other arguments.",
        "Use a new idempotency key for each new call.",
    ),
    "IDEMPOTENCY_IN_FLIGHT": Reason(
        Conflict,
        "A call with this idempotency key is still running.",
        "Send the same call again in a second, to get its answer.",
    ),
    "CLIENT_DISCONNECTED": Reason(
        Unavailable,
        "The client disconnected before the request was complete.",
        "Send the request again; nothing was done.",
    ),
    "INVALID_LIST_CURSOR": Reason(
        Rejected, "The cursor does not come from this list.", "Leave the cursor out to start from the first page."
    ),
    "INVALID_LIST_LIMIT": Reason(
        Rejected, "A page cannot have this many entries.", "Set `limit` to at least 1, or leave it out."
    ),
    "SEARCH_TEXT_TOO_LONG": Reason(Rejected, "The search text is too long.", "Shorten the search text."),
    "PRECONDITION_FAILED": Reason(
        Conflict,
        "Somebody changed the resource after you read it, so its ETag differs.",
        "Read it again, and apply your change to that version.",
    ),
    "NOT_CONFIGURED": Reason(
        Unavailable,
        "This server or process is not configured for the call.",
        "Send the call to a server (`penstock serve`) that is configured for it.",
    ),
    "TEXT_NOT_UNICODE": Reason(Rejected, "A text contains half of a surrogate pair.", "Send well-formed Unicode text."),
    "VALUE_NOT_JSON": Reason(
        Rejected, "A value cannot be stored as JSON.", "Send only JSON values: objects, lists, text, numbers."
    ),
    INTERNAL_ERROR: Reason(
        PenstockError,
        "The server failed because of a bug.",
        "Report the request id; the server's log has the details.",
    ),
}

CAPACITY: Mapping[str, Reason] = {
    "RATE_LIMITED": Reason(
        LimitExceeded,
        "A key, tenant, address or workflow had too many calls in a minute.",
        "Wait for the time in `Retry-After`; `limits.*` sets the rates.",
    ),
    "QUOTA_EXCEEDED": Reason(
        LimitExceeded,
        "A tenant or key has used up a quota: runs, tokens, cost or storage.",
        "Wait until the quota resets, or ask the operator to raise it with `quota.set`.",
    ),
    "QUOTA_NOT_FOUND": Reason(
        NotFound, "These quotas were never changed.", "List the changed quotas with `quota.list`."
    ),
    "CONCURRENCY_LIMITED": Reason(
        LimitExceeded,
        "The key has too many calls at once.",
        "Wait for one of them to finish; `limits.concurrent_per_key` sets the limit.",
    ),
    "TOO_MANY_REQUESTS_IN_FLIGHT": Reason(
        LimitExceeded,
        "The server is answering as many requests as it can.",
        "Try again in a second; `server.max_concurrent_requests` sets the limit.",
    ),
    "STREAMS_LIMITED": Reason(
        LimitExceeded,
        "Too many event streams are open.",
        "Close a stream, or raise `server.streams.per_key` or `server.streams.max`.",
    ),
    OUT_OF_MEMORY: Reason(
        Unavailable,
        "The server has no memory left for the call.",
        "Send less at once, or give the server more memory.",
    ),
}
