"""The answer that declines a question, as the document of the workflow means it.

A document can declare it (`decline: {approve: false}`). If it does not, the schema of the answer may allow only one
reading: the one boolean that is required, or the one choice that says no. Names do not matter, with one exception:
answering false to something called `reject` or `skip` does not decline it. If no such answer fits the schema, declining
is not possible and the question stays open. Closing a form is not declining.

Above it: views of questions. Below it: the schemas of documents. The run checks the answer like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, is_prompt, is_valid, load_schema

__all__ = ["Decided", "answer_fits", "answer_says_no", "decided_by", "deciding_member", "declined_answer"]

Decided: TypeAlias = Literal["approved", "declined", "answered"]
"""What an answer decides; `answered` if the question was not one to approve or decline."""

_DECLINE = "decline"
_REFUSING = frozenset(
    [
        "decline",
        "declined",
        "deny",
        "denied",
        "disagree",
        "disapprove",
        "disapproved",
        "no",
        "refuse",
        "refused",
        "reject",
        "rejected",
    ]
)
# Answering false to one of these does not say no to the question.
_NEGATIVE = _REFUSING.union(
    [
        "abort",
        "against",
        "block",
        "cancel",
        "delay",
        "disable",
        "disallow",
        "dont",
        "forbid",
        "hold",
        "ignore",
        "never",
        "not",
        "object",
        "oppose",
        "postpone",
        "prevent",
        "revoke",
        "skip",
        "stop",
        "suspend",
        "veto",
        "withhold",
        "without",
    ]
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def answer_fits(schema: JsonValue, answer: JsonValue) -> bool:
    """Whether the answer fits the schema of a question. If checking would take long, the run does it later."""
    compiled = load_schema(schema) if isinstance(schema, dict) else None
    if not isinstance(compiled, CompiledSchema):
        return False
    return not is_prompt(compiled, answer, len(encode_bytes(answer))) or is_valid(compiled, answer)


def declined_answer(schema: JsonValue, declared: JsonValue = None) -> JsonValue:
    """Return the answer that declines a question; None if it cannot be declined.

    `declared` is the one in the document.
    """
    if declared is not None:
        return declared if answer_fits(schema, declared) else None
    if not isinstance(schema, dict):
        return None
    return next((answer for answer in _readings(schema) if answer_fits(schema, answer)), None)


def deciding_member(schema: JsonValue, declined: JsonValue) -> str | None:
    """Return the member of the answer that is true to approve and false to decline; "" if that is the whole answer.

    None if the question is not one that somebody approves or declines.
    """
    if not isinstance(schema, dict):
        return None
    if declined is False and schema.get("type") == "boolean":
        return ""
    members = schema.get("properties")
    if not isinstance(members, dict) or not isinstance(declined, dict):
        return None
    truths = [name for name, value in declined.items() if isinstance(value, bool)]
    if len(truths) != 1 or declined[truths[0]] is not False:
        return None
    member = members.get(truths[0])
    return truths[0] if isinstance(member, dict) and member.get("type") == "boolean" else None


def answer_says_no(declined: JsonValue, answer: JsonValue) -> bool:
    """Whether an answer declines: every member of the answer that declines is in it."""
    if isinstance(declined, dict) and isinstance(answer, dict):
        return bool(declined) and all(name in answer and answer[name] == value for name, value in declined.items())
    return declined is not None and declined == answer


def decided_by(schema: JsonValue, declared: JsonValue, answer: JsonValue) -> Decided:
    """Return what an answer decides. `declared` is the answer that declines, if the document has one."""
    declined = declined_answer(schema, declared)
    member = deciding_member(schema, declined)
    said = answer.get(member) if member and isinstance(answer, dict) else answer
    if answer_says_no(declined, answer) or (member is not None and said is False):
        return "declined"
    return "approved" if member is not None and said is True else "answered"


def _readings(schema: JsonObject) -> Iterator[JsonValue]:
    """Yield the answers that may mean no, the most certain first."""
    if schema.get("type") == "boolean":
        yield False
    members = schema.get("properties")
    if not isinstance(members, dict):
        return
    agreed: JsonObject = {}
    if "action" in members:
        agreed["action"] = _DECLINE
    if "approved" in members:
        agreed["approved"] = False
    if agreed:
        yield agreed
    listed = schema.get("required")
    required = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    asked = {name: members[name] for name in required or list(members) if name in members}
    if not required and len(asked) > 1:
        return  # none of them is required, so none of them is the question
    truths = [name for name, member in asked.items() if isinstance(member, dict) and member.get("type") == "boolean"]
    if len(truths) == 1 and not _words(truths[0]) & _NEGATIVE:
        yield {truths[0]: False}
    refusing = {name: found for name, member in asked.items() if (found := _refusing_choices(member))}
    if len(refusing) == 1:
        [(name, choices)] = refusing.items()
        if len(choices) == 1:
            yield {name: choices[0]}


def _refusing_choices(member: JsonValue) -> list[str]:
    """Return the choices of a member that say no."""
    if not isinstance(member, dict):
        return []
    listed, titled = member.get("enum"), member.get("oneOf")
    choices = listed if isinstance(listed, list) else []
    if isinstance(titled, list):
        choices = [item.get("const") for item in titled if isinstance(item, dict)]
    return [item for item in choices if isinstance(item, str) and item.lower() in _REFUSING]


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}
