"""The server itself: whether it is well, what it is, what the tenant may use and uses, backups, and its counters."""

from __future__ import annotations

from penstock.base.errors import Conflict, PenstockError, Unavailable
from penstock.console.pages.reading import Part, address, chosen, held, part
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["system"]

_TENANT = "tenant"
_NOT_YOURS = "a backup contains the data of every tenant, so only the operator of the server may make one"
_ACTIONS = {"backup": "backup.create"}


async def system(visit: Visit) -> Shown:
    """Show what the operations about the server say; make a backup."""
    mistake: PenstockError | None = None
    if visit.form is not None:
        try:
            made = await visit.call(chosen(visit.form, _ACTIONS))
            return held(made) or Redirect(address("system") + "#backups")
        except (Conflict, Unavailable) as error:
            mistake = error
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
        # For others, skip the call: the refusal would be recorded each time they open this page.
        "backups": await part(visit, "backup.list") if visit.principal.is_operator else Part(closed=_NOT_YOURS),
        "mistake": mistake,
    }
    return Page("system/system.html", given, 200 if mistake is None else 422)
