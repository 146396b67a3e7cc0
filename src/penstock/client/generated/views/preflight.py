"""What operations on preflight answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["PreflightView"]


class PreflightView(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would do, and what making it takes."""

    preflight_id: str
    operation: str
    title: str
    arguments: dict[str, Any]
    risk: str
    would: str
    reason: str | None
    denied_code: str | None
    approvers: list[dict[str, Any]]
    impact: dict[str, Any]
    digest: str
    schema_version: str
    policy_version: str | None
    state_witness: Any
    state_witness_hash: str | None
    expires_at: str | None
