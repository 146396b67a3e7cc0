"""Agents: the list, and one of them with a form that gives it work."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.pages.reading import address, held, key_names
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["agent", "listing"]


async def listing(visit: Visit) -> Shown:
    """Show the agents that are registered."""
    prefix, cursor = visit.query.text("prefix"), visit.query.text("cursor")
    page = await visit.call("agent.list", prefix=prefix or None, cursor=cursor or None, limit=limits.CONSOLE_ROWS)
    given = {"section": "agents", "agents": page["items"], "more": page["next_cursor"], "prefix": prefix}
    given["proposals"] = page["proposals"]
    return Page("agents/listing.html", given)


async def agent(visit: Visit) -> Shown:
    """Show one agent; give it work."""
    agent_id = visit.path["agent_id"]
    prompt, mistake = "", None
    if visit.form is not None:
        prompt = visit.form.text("prompt")
        if prompt:
            started = await visit.call("agent.execute", agent_id=agent_id, prompt=prompt)
            return held(started) or Redirect(address("runs", started["execution_id"]))
        mistake = "Describe the task."
    shown = await visit.call("agent.get", agent_id=agent_id)
    details = {name: shown[name] for name in ("output_schema", "limits", "conversation", "memory") if shown.get(name)}
    given = {"section": "agents", "agent": shown, "details": {name: cut_value(item) for name, item in details.items()}}
    tools = [item if isinstance(item, str) else item["tool"] for item in shown["tools"]]
    asked = [item["tool"] for item in shown["tools"] if not isinstance(item, str) and item.get("approve")]
    given["key_names"] = await key_names(visit, [shown["updated_by"]])
    given |= {"tools": tools, "asked": asked, "prompt": prompt, "mistake": mistake}
    return Page("agents/agent.html", given, 422 if mistake else 200)
