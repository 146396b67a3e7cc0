"""The side file of an API: what an operator says of its operations, in place of the document.

    operations:
      listOrders: {name: list_orders, description: "Orders, newest first."}
      DELETE /orders/{id}: {name: delete_order, fixed: {force: false}}

Above it: `app` reads the file. Below it: `document`, `operations`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.runtime.upstreams.openapi.document import parse_text
from penstock.runtime.upstreams.openapi.operations import OperationOverride

__all__ = ["parse_overrides"]


class _SideFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By operationId, or by method and path."""

    operations: dict[str, OperationOverride] = {}


def parse_overrides(text: bytes, *, name: str) -> Mapping[str, OperationOverride]:
    """Read the text of a side file. Raises `Rejected`."""
    code, hint = "OPENAPI_OVERRIDES_INVALID", "write `operations: {createOrder: {name: create_order}}`"
    if len(text) > limits.DOCUMENT_BYTES_MAX:
        raise Rejected(code, f"{name} has more than {limits.DOCUMENT_BYTES_MAX} bytes", hint)
    try:
        return msgspec.convert(parse_text(text, name), _SideFile).operations
    except msgspec.ValidationError as error:
        raise Rejected(code, f"{name}: {error}", hint) from None
