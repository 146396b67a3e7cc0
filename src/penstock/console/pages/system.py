"""The server itself: whether it is well, what it is, what the tenant may use and uses, and its counters."""

from __future__ import annotations

from penstock.console.pages.reading import part
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Shown, Visit

__all__ = ["system"]

_TENANT = "tenant"


async def system(visit: Visit) -> Shown:
    """Show what the operations about the server say."""
    info = await visit.call("system.info")
    quota = await part(visit, "quota.get", subject=_TENANT)
    metrics = await part(visit, "system.metrics")
    figures = sorted((metrics.value or {"metrics": {}})["metrics"].items())
    given = {
        "section": "system",
        "info": info,
        "details": {name: cut_value(found) for name, found in info["details"].items()},
        "health": await part(visit, "system.health"),
        "quota": quota,
        "metrics": metrics,
        "figures": figures,
    }
    return Page("system/system.html", given)
