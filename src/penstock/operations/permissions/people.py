"""What principals are called, for people who read who asked and who decided.

A key has a name that its maker chose, a user of the machine has theirs, and a token says whose it is. A key of another
tenant has no name here. Two keys may have the same name: a page that shows one shows its id, too.

Above it: the operations that show who asked and who decided. Below it: the platform port.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.base import limits
from penstock.operations.gate.context import Context
from penstock.runtime.tables.api_keys import list_keys

__all__ = ["names_of"]

_KEY, _USER, _TOKEN = "key", "os", "token"


async def names_of(context: Context, principals: Iterable[str | None]) -> dict[str, str]:
    """Return what each of these principals is called; the id itself if it has no name here."""
    wanted = sorted({principal for principal in principals if principal})
    keys = [rest for kind, _, rest in (principal.partition(":") for principal in wanted) if kind == _KEY]
    named: dict[str, str] = {}
    for first in range(0, len(keys), limits.KEYS_NAMED_MAX):
        several = keys[first : first + limits.KEYS_NAMED_MAX]
        page = await list_keys(context.services.platform, tenant=context.tenant, limit=len(several), ids=several)
        named.update({row.principal_id: row.name for row in page.rows})
    return {principal: named.get(principal) or _name_in(principal) for principal in wanted}


def _name_in(principal: str) -> str:
    """Return the part of an id that is a name: of a user, and of the subject of a token."""
    kind, _, rest = principal.partition(":")
    if kind == _TOKEN:
        rest = rest.partition(":")[2]
    return rest if rest and kind in (_USER, _TOKEN) else principal
