"""Things that a tenant keeps under ids of its own, each with an ETag.

Above it: registries, webhooks. Below it: the resources of the platform store.
"""

from __future__ import annotations

from penstock.runtime.ports.platform import ANY_ETAG

__all__ = ["expected_etag"]


def expected_etag(if_match: str | None) -> str:
    """The version that an If-Match names; any without."""
    if if_match is None or if_match.strip() == ANY_ETAG:
        return ANY_ETAG
    return if_match.strip().removeprefix("W/").strip('"')
