"""Reads stored resources whose contents decide about something: one that cannot be read is named, and decides nothing.

Above it: the readers of graphs, webhooks, evidence. Below it: rows of the platform port.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["decode_body"]

_Body = TypeVar("_Body")


def decode_body(row: ResourceRow, kind: type[_Body]) -> _Body:
    """Return what a row stores; raise `CorruptHistory` if it is something else."""
    try:
        return msgspec.convert(row.body, kind)
    except msgspec.ValidationError as error:
        message = f"the stored {row.kind} {row.resource_id} cannot be read: {error}"
        raise CorruptHistory("STORE_CORRUPT", message, "restore a backup, or delete it and make it again") from None
