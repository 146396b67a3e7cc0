"""What was decided, in the words of pages: by whom, and what it led to. It comes from the store, not from an address.

The heading of a page says what happened to a call or a run. A run that completed after a decline does not look like a
success.

Above it: the pages of runs and approvals. Below it: `rendering`, `visits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.base.errors import PenstockError
from penstock.base.scopes import scope_allows
from penstock.console.rendering import short_value, status_words, tone_of
from penstock.console.visits import Visit

__all__ = ["WHY_NOT", "Headline", "draft_headline", "members_of", "outcome_of_draft", "run_headline", "told_decisions"]

# More would be no overview; the whole value is below it.
_MEMBERS_SHOWN = 30
_NAME_CHARACTERS_SHOWN = 40
_NEEDS_PEOPLE = ("waiting_input", "waiting_approval", "waiting_decision")
# Decisions after which a run that completed is no success.
_NOT_DONE = ("declined", "expired")
_VERBS = {"approved": "approved", "declined": "declined", "answered": "answered", None: "decided"}

WHY_NOT = {
    "scope": "You cannot decide this: your key or account lacks the scope for it. Ask the person who gave it to you.",
    "person": "You cannot decide this: only people can.",
    "others": "You are not one of its approvers.",
    "requester": "You cannot decide this: it is your own request.",
    "voted": "You have already approved this. It waits for another person.",
}
"""Why the visitor cannot decide about a waiting call."""

_OUTCOMES = {
    "approved": "The call is in progress.",
    "executed": "The call was made.",
    "rejected": "The call was not made.",
    "canceled": "The call was withdrawn before a decision, and was not made.",
    "expired": "Nobody decided in time. The call was not made.",
    "drifted": "What it would do had changed by then. The call was not made; it must be requested again.",
    "failed": "The call could not be made.",
    "ambiguous": "It is unknown whether the call was made. A person must find out and settle it.",
}


# Outcomes whose error says more than the sentence.
_FAILED = ("failed", "drifted", "ambiguous")


class Headline(NamedTuple):
    """What the heading of a page says beside the name of the thing."""

    text: str
    tone: str


def run_headline(
    decisions: Sequence[Mapping[str, Any]], status: str, *, named: bool = True, held: bool = False
) -> Headline:
    """Return the heading of a run: the last decision and the status of the run.

    `named` says by whom. A run that only holds a call (`held`) fails if the call is not made.
    """
    words = status_words(status)
    last = next((item for item in reversed(decisions) if item["final"]), None)
    if last is None or last["decision"] == "answered" or status in _NEEDS_PEOPLE:
        return Headline(words, tone_of(status))
    if held and last["decision"] in _NOT_DONE and status == "failed":
        return Headline(_decided_words(last, named=named), "plain")
    tone = "plain" if last["decision"] in _NOT_DONE and status == "completed" else tone_of(status)
    return Headline(f"{_decided_words(last, named=named)} · run {words}", tone)


def draft_headline(decisions: Sequence[Mapping[str, Any]], status: str) -> Headline:
    """Return what the heading of a held call says: who decided it, and the outcome."""
    final = next((item for item in reversed(decisions) if item["final"]), None)
    if final is None or status in ("waiting", "expired", "canceled"):
        return Headline(status_words(status), tone_of(status))
    said = _decided_words(final)
    if status in ("rejected", "approved"):
        return Headline(said, tone_of(status))
    return Headline(f"{said} · {status_words(status)}", tone_of(status))


def _decided_words(decision: Mapping[str, Any], *, named: bool = True) -> str:
    if decision["decision"] == "expired":
        return "nobody decided in time"
    if not named:
        return _VERBS[decision["decision"]]
    name = decision["name"] or decision["by"] or "somebody"
    if len(name) > _NAME_CHARACTERS_SHOWN:
        name = f"{name[:_NAME_CHARACTERS_SHOWN]}…"
    return f"{_VERBS[decision['decision']]} by {name}"


def told_decisions(visit: Visit, decisions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return decisions in the words of a page, with whether the visitor made them."""
    return [
        {
            **item,
            "verb": "did not decide in time" if item["decision"] == "expired" else _VERBS[item["decision"]],
            "who": "Nobody" if item["decision"] == "expired" else item["name"] or item["by"] or "Somebody",
            "own": item["by"] is not None and item["by"] == visit.principal.id,
        }
        for item in decisions
    ]


async def outcome_of_draft(visit: Visit, shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a held call led to: a sentence, the run that it started, and the outcome of that run."""
    words = _OUTCOMES.get(shown["status"])
    if words is None:
        return None
    result = shown["result"] if isinstance(shown["result"], dict) else {}
    started = result.get("execution_id")
    run_id = started if isinstance(started, str) and started != shown["id"] else None
    run = await _run_as_it_is(visit, run_id) or result
    return {
        "words": words,
        "run_id": run_id,
        "run_status": run.get("status") if run_id else None,
        "run_error": run.get("error") if run_id else None,
        "members": members_of(run.get("output") if run_id else shown["result"]),
        "tells_error": shown["status"] in _FAILED,
    }


async def _run_as_it_is(visit: Visit, run_id: str | None) -> dict[str, Any] | None:
    """Return the run that a call started, if the visitor may read it: it may have moved since the call was answered."""
    if run_id is None or not scope_allows(visit.principal.scopes, "execution:read"):
        return None
    try:
        found: dict[str, Any] = await visit.call("execution.status", execution_id=run_id)
    except PenstockError:
        return None
    return found


def members_of(value: object) -> list[tuple[str, str]] | None:
    """Return an object as names and values, for readers who do not know JSON; None if it has too many."""
    if not isinstance(value, dict):
        return [] if value in (None, "") else [("", short_value(value))]
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any]] = list(value.items())
    while waiting:
        name, member = waiting.pop(0)
        if isinstance(member, dict) and member:
            waiting = [(f"{name} / {inner}", deeper) for inner, deeper in member.items()] + waiting
        else:
            found.append((short_value(name), short_value(member)))
        if len(found) + len(waiting) > _MEMBERS_SHOWN:
            return None
    return found
