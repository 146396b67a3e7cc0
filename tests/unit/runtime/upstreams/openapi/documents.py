"""Small OpenAPI documents for the tests."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.runtime.upstreams.openapi.document import ApiDocument, read_document
from penstock.runtime.upstreams.openapi.operations import ApiImport, ApiOperation, OperationOverride, import_operations

__all__ = ["document", "imported", "operation"]


def document(paths: Any, schemas: Any = None, *, version: str = "3.1.0", **more: Any) -> ApiDocument:
    """A document with some paths and schemas."""
    whole = {
        "openapi": version,
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example/v1"}],
        "paths": paths,
        "components": {"schemas": schemas or {}},
        **more,
    }
    return read_document(msgspec.json.encode(whole))


def imported(paths: Any, schemas: Any = None, overrides: Any = None, **more: Any) -> ApiImport:
    """What becomes of a document."""
    side = {name: msgspec.convert(item, OperationOverride) for name, item in (overrides or {}).items()}
    return import_operations(document(paths, schemas, **more), side)


def operation(described: Any, *, method: str = "post", path: str = "/orders", **more: Any) -> ApiOperation:
    """The one operation of a document."""
    found = imported({path: {method: {"operationId": "it", **described}}}, **more)
    assert not found.refused, found.refused
    return found.operations["it"]
