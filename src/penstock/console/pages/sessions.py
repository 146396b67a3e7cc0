"""Sessions: the browsers in which somebody is signed in, and ending one of them."""

from __future__ import annotations

from penstock.base import limits
from penstock.base.scopes import scope_allows
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["sessions"]


async def sessions(visit: Visit) -> Shown:
    """Show one's own sessions, or those of the tenant; end one."""
    everybody = bool(visit.query.text("everybody"))
    here = "/console/sessions" + ("?everybody=1" if everybody else "")
    if visit.form is not None:
        await visit.call("console_session.end", console_session_id=visit.form.text("session_id"))
        return Redirect(here)
    page = await visit.call(
        "console_session.list",
        everybody=everybody,
        limit=limits.CONSOLE_ROWS,
        cursor=visit.query.text("cursor") or None,
    )
    given = {
        "items": page["items"],
        "more": page["next_cursor"],
        "everybody": everybody,
        "here": here,
        "own_session": visit.session_id,
        "may_see_others": scope_allows(visit.principal.scopes, "key:read"),
        "may_end_others": scope_allows(visit.principal.scopes, "key:write"),
    }
    return Page("sessions.html", given)
