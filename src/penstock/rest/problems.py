"""Problem documents (RFC 9457): the one form of every error response in REST.

`type` is a URN made from the code (a name, nothing to fetch), and `title` belongs to the status. `detail` says what is
wrong, `code` is the stable reason, and `hint` says what to do next. `errors` lists violations, each with a JSON
pointer.
"""

from __future__ import annotations

from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import hint_of

__all__ = ["PROBLEM_MEDIA_TYPE", "PROBLEM_SCHEMA", "problem_body", "problem_headers", "problem_status"]

PROBLEM_MEDIA_TYPE = "application/problem+json"

PROBLEM_SCHEMA: JsonObject = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong (RFC 9457), why, and what to do next.",
    "required": ["type", "title", "status", "detail", "code", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "A name for the kind of problem, made from the code."},
        "title": {"type": "string", "description": "The kind of problem in a few words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What is wrong with this request."},
        "instance": {"type": "string", "description": "The requested path."},
        "code": {"type": "string", "description": "A stable reason to branch on."},
        "hint": {"type": "string", "description": "What to do next."},
        "request_id": {"type": "string", "description": "Name this when you ask about the problem."},
        "errors": {
            "type": "array",
            "description": "Every violation, for arguments that do not fit.",
            "items": {
                "type": "object",
                "required": ["pointer", "message"],
                "properties": {
                    "pointer": {"type": "string", "description": "Where: a JSON pointer into the arguments."},
                    "keyword": {"type": "string", "description": "Which rule of the schema."},
                    "message": {"type": "string", "description": "What is wrong there."},
                },
            },
        },
        "details": {"type": "object", "description": "More facts, by code."},
        "error": {
            "type": "object",
            "description": "The error as the workflow profile publishes it, from its functions.",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
        },
    },
}


def problem_status(error: PenstockError) -> int:
    """Return the HTTP status of an error."""
    return mapping_of(error).status


def problem_body(error: PenstockError, *, request_id: str, instance: str) -> bytes:
    """Build the problem document of an error."""
    mapping = mapping_of(error)
    body: JsonObject = {
        "type": f"urn:penstock:problem:{error.code.lower().replace('_', '-')}",
        "title": mapping.title,
        "status": mapping.status,
        "detail": error.message,
        "instance": instance,
        "code": error.code,
        "request_id": request_id,
    }
    hint = hint_of(error)
    if hint:
        body["hint"] = hint
    details = dict(error.details)
    violations = details.pop("errors", None)
    if isinstance(violations, list):
        body["errors"] = violations
    published = details.pop("error", None)
    if isinstance(published, dict):
        body["error"] = published
    if details:
        body["details"] = details
    return encode_bytes(body)


def problem_headers(error: PenstockError) -> list[tuple[bytes, bytes]]:
    """Return the headers that go with an error: when to retry, how to authenticate, which methods are allowed."""
    headers = []
    wait: JsonValue = error.details.get("retry_after_seconds")
    if isinstance(wait, int):
        headers.append((b"retry-after", str(wait).encode()))
    allowed = error.details.get("allow")
    if isinstance(allowed, str):
        headers.append((b"allow", allowed.encode()))
    if error.challenge is not None:
        headers.append((b"www-authenticate", error.challenge.encode("latin-1", "replace")))
    elif problem_status(error) == 401:  # noqa: PLR2004  # the status of RFC 9110
        headers.append((b"www-authenticate", b'Bearer realm="penstock"'))
    return headers
