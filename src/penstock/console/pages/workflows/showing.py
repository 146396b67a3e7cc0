"""Workflows: the list, and one of them with its picture, its exposure, what starts it, its test cases and versions."""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.console.pages.reading import key_names, node_window, nodes_from, part
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Shown, Visit
from penstock.console.word_changes import changed_lines

__all__ = ["listing", "tests", "versions", "workflow"]

_FEW = 10


async def listing(visit: Visit) -> Shown:
    """Show the workflows by name."""
    prefix, cursor = visit.query.text("prefix"), visit.query.text("cursor")
    page = await visit.call("workflow.list", prefix=prefix or None, cursor=cursor or None, limit=limits.CONSOLE_ROWS)
    given = {"section": "workflows", "workflows": page["items"], "more": page["next_cursor"], "prefix": prefix}
    given["proposals"] = page["proposals"]
    return Page("workflows/listing.html", given)


async def workflow(visit: Visit) -> Shown:
    """Show one workflow."""
    workflow_id = visit.path["workflow_id"]
    version = visit.query.text("hash") or None
    shown = await visit.call("workflow.get", workflow_id=workflow_id, hash=version)
    first = nodes_from(visit)
    drawing = await visit.call(
        "workflow.draw", workflow_id=workflow_id, hash=version, nodes_from=first, limit=limits.CONSOLE_NODE_ROWS
    )
    return Page(
        "workflows/workflow.html",
        {
            **_common("overview", shown),
            "version": version,
            "drawing": drawing,
            "nodes": node_window(first, drawing["nodes_total"]),
            "node_rows": limits.CONSOLE_NODE_ROWS,
            "document": cut_value(shown["document"]),
            "exposed": _exposed(shown["document"]),
            "governance": cut_value(shown["document"].get("governance") or {}),
            "runs": await part(visit, "workflow.executions", workflow_id=workflow_id, limit=_FEW),
            "schedules": await part(visit, "schedule.list", workflow_id=workflow_id, limit=_FEW),
            "switched_off": _switched_off(shown["document"]),
            "triggers": await part(visit, "trigger.list", workflow_id=workflow_id),
            "key_names": await key_names(visit, [shown["created_by"]]),
            "proposals": await _proposals(visit, workflow_id),
        },
    )


async def _proposals(visit: Visit, workflow_id: str) -> list[dict[str, Any]]:
    """Return the held calls that would store another version of a workflow."""
    page = (await part(visit, "workflow.list", prefix=workflow_id, limit=1)).value or {"proposals": []}
    return [item for item in page["proposals"] if item["name"] == workflow_id]


def _common(tab: str, shown: dict[str, Any]) -> dict[str, Any]:
    return {"section": "workflows", "workflow": shown, "tab": tab}


def _exposed(document: dict[str, Any]) -> list[dict[str, str]]:
    """Return what assistants see of a workflow, as its document says it: as a tool, a prompt or a resource."""
    exposed = document.get("expose")
    items = exposed.items() if isinstance(exposed, dict) else ()
    return [
        {
            "kind": str(kind),
            "name": str(settings.get("name") or settings.get("uri") or document.get("name") or ""),
            "description": str(settings.get("description") or ""),
        }
        for kind, settings in ((kind, found if isinstance(found, dict) else {}) for kind, found in items if found)
    ]


def _switched_off(document: dict[str, Any]) -> list[str]:
    """Return the ids of schedules that a document has, but switches off: there is no schedule to list for them."""
    triggers = document.get("triggers")
    return [
        str(item.get("id", ""))
        for item in (triggers if isinstance(triggers, list) else ())
        if isinstance(item, dict) and "schedule" in item and item.get("enabled") is False
    ]


async def tests(visit: Visit) -> Shown:
    """Show the test cases of a workflow, and run them."""
    workflow_id = visit.path["workflow_id"]
    shown = await visit.call("workflow.get", workflow_id=workflow_id)
    report = None
    if visit.form is not None:
        found = await visit.call("workflow.test", workflow_id=workflow_id, case=visit.form.text("case") or None)
        report = {**found, "cases": [_case(item) for item in found["cases"]]}
    cases = shown["document"].get("tests")
    named = [str(item.get("name", "")) for item in cases if isinstance(item, dict)] if isinstance(cases, list) else []
    return Page("workflows/cases.html", {**_common("tests", shown), "cases": named, "report": report})


def _case(item: dict[str, Any]) -> dict[str, Any]:
    differences = [
        {**difference, "expected": cut_value(difference["expected"]), "actual": cut_value(difference["actual"])}
        for difference in item["differences"]
    ]
    return {**item, "differences": differences}


async def versions(visit: Visit) -> Shown:
    """Show the versions of a workflow, and what differs between two of them."""
    workflow_id = visit.path["workflow_id"]
    before, after = visit.query.text("before"), visit.query.text("after")
    shown = await visit.call("workflow.get", workflow_id=workflow_id)
    cursor = visit.query.text("cursor") or None
    page = await visit.call("workflow.versions", workflow_id=workflow_id, limit=limits.CONSOLE_ROWS, cursor=cursor)
    difference, lines = None, None
    if before and after:
        difference = await visit.call("workflow.diff", workflow_id=workflow_id, before=before, after=after)
        old = await visit.call("workflow.get", workflow_id=workflow_id, hash=before)
        new = await visit.call("workflow.get", workflow_id=workflow_id, hash=after)
        lines = changed_lines(old["document"], new["document"])
    return Page(
        "workflows/versions.html",
        {
            **_common("versions", shown),
            "versions": page["items"],
            "more": page["next_cursor"],
            "before": before,
            "after": after,
            "difference": difference,
            "lines": lines,
        },
    )
