"""What operations on system answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ClientEntries", "ClientEntry", "Health", "Information", "Metrics", "OperationView", "Operations"]


class ClientEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How one assistant is connected."""

    client: str
    title: str
    format: str
    snippet: str
    files: list[str]
    steps: list[str]
    command: str


class ClientEntries(msgspec.Struct, frozen=True, kw_only=True):
    """How assistants are connected."""

    url: str
    items: list[ClientEntry]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`ready` when the server can take work; `checks` says what was looked at."""

    ready: bool
    checks: dict[str, str]
    last_backup_at: str | None


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """What this server is."""

    name: str
    version: str
    tenant: str
    principal: str
    scopes: list[str]
    details: dict[str, Any]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the server counts, by name; for a tenant other than the default one, what it counts of that tenant."""

    metrics: dict[str, float]


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be called."""

    name: str
    title: str
    description: str
    method: str | None
    path: str | None
    scopes: list[str]
    risk: str
    read_only: bool
    destructive: bool
    input_schema: dict[str, Any]


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be called."""

    items: list[OperationView]
