"""Approvals: calls and questions that wait for a decision, each with its subject, its requester and its deadline.

Calls are approved one at a time. An approval names the digest that the page showed, so exactly what was shown is
approved. The page of the call shows the decision, who made it, and its outcome.
"""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.base.errors import NotFound, PenstockError, Rejected
from penstock.console.graph_changes import change_rows
from penstock.console.pages.deciding import (
    WHY_NOT,
    draft_headline,
    members_of,
    outcome_of_draft,
    run_headline,
    told_decisions,
)
from penstock.console.pages.reading import address, chosen
from penstock.console.rendering import cut_value, short_value, whole_value
from penstock.console.visits import Page, Redirect, Shown, Text, Visit

__all__ = ["draft", "queue", "value", "waiting_lists"]

_DECISIONS = {"approve": "draft.approve", "reject": "draft.reject"}
# What a tab shows: how the drafts stand, and the words.
_TABS = {"mine": "For you", "open": "All that wait", "ended": "Decided"}
# Arguments that name what a call is about, the likeliest first.
_SUBJECTS = ("workflow_id", "agent_id", "graph_id", "tool_id", "name", "id")
# In a list: enough to tell one from another.
_MEMBERS_LISTED = 3
_VALUES = ("arguments", "state_witness", "result", "impact")
# Why a call waits, for people.
_REASONS = {
    "policy": "a policy of this server requires approval",
    "draft": "its definition always requires approval",
    "confirm": "its definition requires confirmation when agents call it",
    "risk": "it is risky, and an agent asked for it",
    "agent_write": "an agent would change something with it",
    "authorship": "it would store something that takes effect later, which a person must accept",
    "requested": "the requester asked for a review",
}
_CHANGED = {
    "state": "What it would change has changed since the request.",
    "version": "The workflow or tool that it would call has a new version.",
    "policies": "The policies have changed since the request.",
}


async def queue(visit: Visit) -> Shown:
    """Show what waits for the visitor, all that waits, or what was decided."""
    tab = visit.query.text("status") or "mine"
    if tab not in _TABS:
        raise Rejected("STATUS_UNKNOWN", f"{tab[:40]} is not one of the choices", f"choose one of {', '.join(_TABS)}")
    given: dict[str, Any] = {"section": "approvals", "tabs": _TABS, "status": tab, "now": visit.now.isoformat()}
    cursor = visit.query.text("cursor") or None
    if tab == "ended":
        return Page("approvals/decided.html", {**given, **await _list_decided(visit, cursor)})
    page = await visit.call("approval.list", limit=limits.CONSOLE_ROWS, cursor=cursor)
    waiting = [item for item in page["items"] if tab == "open" or item["decidable"]]
    lists = {**waiting_lists(waiting), "more": page["next_cursor"], "others": len(page["items"]) - len(waiting)}
    return Page("approvals/queue.html", {**given, **lists})


def waiting_lists(waiting: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return what waits as pages list it: questions of workflows, and calls with what tells them apart."""
    drafts = [item["draft"] for item in waiting if item["draft"] is not None]
    return {
        "questions": [item for item in waiting if item["draft"] is None],
        "drafts": [{**item, **summary_of(item)} for item in drafts],
    }


async def _list_decided(visit: Visit, cursor: str | None) -> dict[str, Any]:
    """Return decisions about questions, and the calls that no longer wait; each list has pages of its own."""
    older = visit.query.text("questions") or None
    decided = await visit.call("approval.decided", limit=limits.CONSOLE_ROWS, cursor=older)
    page = await visit.call("draft.list", status="ended", limit=limits.CONSOLE_ROWS, cursor=cursor)
    by = {item["id"]: item["decision"] for item in decided["items"] if item["kind"] == "call"}
    return {
        "drafts": [{**item, **summary_of(item), "decision": by.get(item["id"])} for item in page["items"]],
        "more": page["next_cursor"],
        "questions": [
            {**item, "headline": run_headline([item["decision"]], item["status"] or "removed", named=False)}
            for item in decided["items"]
            if item["kind"] == "question"
        ],
        "more_questions": decided["next_cursor"],
        "cursor": cursor,
        "older": older,
    }


async def draft(visit: Visit) -> Shown:
    """Show one call; approve or decline it."""
    draft_id = visit.path["draft_id"]
    if visit.form is None:
        return await _draft_page(visit, draft_id)
    operation = chosen(visit.form, _DECISIONS, "decision")
    note = visit.form.text("note") or None
    try:
        await visit.call(operation, draft_id=draft_id, digest=visit.form.text("digest"), note=note)
    except PenstockError as error:
        return await _draft_page(visit, draft_id, refused=error, note=note or "")
    return Redirect(address("approvals", draft_id))


async def _draft_page(visit: Visit, draft_id: str, *, refused: PenstockError | None = None, note: str = "") -> Page:
    shown = await visit.call("draft.get", draft_id=draft_id)
    decisions = [_decision_of(vote) for vote in shown["votes"]]
    review = await _reviewed(visit, shown)
    state, now = shown["state_witness"], review.get("state_witness")
    impact = dict(review.get("impact") or {})
    # What an approval is bound to may show what differs, too; the same is shown once.
    changes = impact.pop("diff", None) if "diff" in impact else _member(state, "diff")
    rows = change_rows(changes)
    details = {
        "draft": shown,
        "about": _subject(shown),
        "members": members_of(shown["arguments"]),
        "arguments": cut_value(shown["arguments"]),
        "result": cut_value(shown["result"]),
        "witness": None if state is None else cut_value(state),
        "witness_now": None if "state" not in review.get("changed", ()) else cut_value(now),
        "rows": rows,
        "difference": cut_value(changes) if changes and rows is None else None,
        "impact": cut_value(impact) if impact else None,
        "changed": [_CHANGED[item] for item in review.get("changed", ())],
        "reached": review.get("reached") or [],
        "problem": review.get("problem"),
        "unknown": review.get("unknown"),
        "quorum": _quorum(shown),
        "reason": _REASONS.get(shown["reason"], shown["reason"]),
        "why_not": WHY_NOT.get(shown["why_not"] or ""),
        "decisions": told_decisions(visit, decisions),
        "headline": draft_headline(decisions, shown["status"]),
        "outcome": await outcome_of_draft(visit, shown),
        "now": visit.now.isoformat(),
        "note": note,
        "refused": refused,
    }
    return Page("approvals/draft.html", {"section": "approvals", **details}, 200 if refused is None else 409)


def _decision_of(vote: dict[str, Any]) -> dict[str, Any]:
    """Return a vote about a held call as the decision that it is."""
    said = vote["answer"].get("approved") if isinstance(vote["answer"], dict) else None
    decision = "declined" if said is False else "approved"
    return {**vote, "decision": decision, "final": vote["final"], "prompt": None}


async def _reviewed(visit: Visit, shown: dict[str, Any]) -> dict[str, Any]:
    """Compare a draft with the current state; it may have been decided a moment ago."""
    if shown["status"] != "waiting":
        return {}
    try:
        review: dict[str, Any] = await visit.call("draft.review", draft_id=shown["id"])
    except PenstockError as error:
        return {"unknown": error.message}
    return review


def summary_of(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what tells a call in a list from others: what it is about, and its first arguments."""
    others = {name: value for name, value in shown["arguments"].items() if name not in _SUBJECTS}
    members = [(name.rpartition(" / ")[2], text) for name, text in members_of(others) or ()]
    return {"about": _subject(shown), "members": members[:_MEMBERS_LISTED]}


def _subject(shown: dict[str, Any]) -> str | None:
    """Return what a call is about, if its arguments name it."""
    named = (shown["arguments"].get(name) for name in _SUBJECTS)
    return next((short_value(value) for value in named if isinstance(value, str)), None)


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _quorum(shown: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many people have approved in this step, and how many must."""
    question = shown["question"]
    if question is None or not isinstance(question["approvers"], dict):
        return None
    count = question["approvers"].get("count", 1)
    return len(question["votes"]), count if isinstance(count, int) else 1


async def value(visit: Visit) -> Shown:
    """Show the whole of a value as text."""
    name, draft_id = visit.path["name"], visit.path["draft_id"]
    if name not in _VALUES:
        raise NotFound("VALUE_NOT_FOUND", f"a call that waits has no {name[:40]}")
    operation = "draft.review" if name == "impact" else "draft.get"
    shown = await visit.call(operation, draft_id=draft_id)
    return Text(whole_value(shown[name]))
