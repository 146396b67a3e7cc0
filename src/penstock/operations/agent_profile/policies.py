"""What the policies of apps say about calls, as policies of the gate: where an app may call from.

The gate's stage for policies reads these beside the stored ones, so that one place decides about all calls.
What an app may touch of the demo ledger is decided there (`ledger`), because only it knows which ledger a transaction
belongs to.

Above it: `app`, which gives it to the stage. Below it: `records`, `governance.policy`.
"""

from __future__ import annotations

import logging
from ipaddress import ip_network

from penstock.base import limits
from penstock.governance.policy.source import Policy, parse_policies
from penstock.operations.agent_profile.records import APP_KIND, AppRecord, readable_app
from penstock.operations.permissions.apps import app_group
from penstock.runtime.ports.database import Database
from penstock.runtime.tables.resources import list_resources

__all__ = ["app_policies", "network_policy"]

_LOGGER = logging.getLogger("penstock.policy")
_SOURCE = "apps"


async def app_policies(platform: Database, tenant: str) -> tuple[Policy, ...]:
    """Return the policies of all apps of a tenant; an app whose policy cannot be read may do nothing."""
    found: list[Policy] = []
    cursor = None
    while True:
        page = await list_resources(platform, tenant, APP_KIND, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
        for row in page.rows:
            app = readable_app(row)
            if app is None or not _has_addresses(app):
                _LOGGER.error(
                    "the stored app %s of %s cannot be read, so the app may not make any call", row.resource_id, tenant
                )
                found += parse_policies(_forbid_from(row.resource_id), _SOURCE).policies
                continue
            text = network_policy(app)
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
    return _forbid_from(app.id, unless)


def _forbid_from(app_id: str, unless: str = "") -> str:
    """Return the policy that forbids an app to call."""
    group = app_group(app_id)
    return f'@id("{group}.network") forbid (principal in Group::"{group}", action, resource){unless};'


def _has_addresses(app: AppRecord) -> bool:
    """Whether everything in the list of an app is an address or a range; anything else would spoil the policy."""
    try:
        for address in app.policy.network.allowed_ips or ():
            ip_network(address, strict=False)
    except ValueError:
        return False
    return True
