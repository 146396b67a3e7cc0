"""What the policies of apps say about calls, as policies of the gate: where an app may call from.

The gate's stage for policies reads these beside the stored ones, so that there is one place where calls are decided.
What an app may touch of the demo ledger is decided there (`ledger`), because only it knows which ledger a transaction
belongs to.

Above it: `app`, which gives it to the stage. Below it: `records`, `governance.policy`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.governance.policy.source import Policy, parse_policies
from penstock.operations.agent_profile.records import APP_KIND, AppRecord, app_record
from penstock.operations.permissions.apps import app_group
from penstock.runtime.ports.platform import PlatformStore

__all__ = ["app_policies", "network_policy"]

_SOURCE = "apps"


async def app_policies(platform: PlatformStore, tenant: str) -> tuple[Policy, ...]:
    """Return the policies of all apps of a tenant; an app whose policy cannot be read may do nothing."""
    found: list[Policy] = []
    cursor = None
    while True:
        page = await platform.resources(tenant, APP_KIND, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
        for row in page.rows:
            text = network_policy(app_record(row))
            if text is not None:
                found += parse_policies(text, _SOURCE).policies
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)


def network_policy(app: AppRecord) -> str | None:
    """Return the policy that forbids an app to call from elsewhere; None if it may call from anywhere."""
    allowed = app.policy.network.allowed_ips
    if allowed is None:
        return None
    ranges = " || ".join(f'context.network.address.isInRange(ip("{address}"))' for address in allowed)
    unless = f" unless {{ context.network has address && ({ranges}) }}" if allowed else ""
    head = f'@id("{app_group(app.id)}.network") forbid (principal in Group::"{app_group(app.id)}", action, resource)'
    return f"{head}{unless};"
