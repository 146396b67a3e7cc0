"""Definitions, and the names that they claim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.tables.definitions import Definitions
from penstock.runtime.tables.listings import name_cursor, number_cursor
from tests.conformance.families.family import Call, Family
from tests.conformance.platform_stores import SEAL, entry
from tests.conformance.stores import definition

__all__ = ["DEFINITIONS"]


def exposed(number: int, name: str, tool: str, **changes: Any) -> DefinitionRow:
    """A definition that claims the name of a tool."""
    row = definition(number, name=name)
    return replace(row, document={**row.document, "expose": {"tool": {"name": tool}}}, **changes)


def on(use: Callable[[Definitions], Awaitable[object]]) -> Call:
    """Use definitions that remember nothing."""
    return lambda database: use(Definitions(database))


def put(row: DefinitionRow, **more: Any) -> Call:
    """Store a definition."""
    return on(lambda definitions: definitions.put(row, **more))


async def list_pages(database: Database) -> None:
    """List with every condition."""
    definitions = Definitions(database)
    for tenant in ("default", None):
        await definitions.list_page(tenant=tenant, limit=1)
        for of in ("default", "acme"):
            await definitions.list_page(tenant=tenant, prefix="re", limit=5, cursor=name_cursor("refund", of))


FIRST, SECOND = exposed(1, "refund", "pay"), exposed(2, "onboarding", "join")

DEFINITIONS = Family(
    given=[put(FIRST), put(SECOND), put(exposed(3, "leave", "go"))],
    changes={
        "put: a newer one": put(exposed(4, "refund", "pay", created_at=1)),
        "put: with another name": put(exposed(5, "refund", "refund", created_at=2), expected_hash="hash-1"),
        "put: a new one": put(exposed(6, "new", "newer"), expected_hash=None),
        "put: a new one of that name": put(exposed(7, "new", "refund"), expected_hash=None),
        "put: with the name of the first": put(exposed(8, "onboarding", "pay")),
        "put: of another tenant": put(exposed(4, "refund", "pay", tenant="acme")),
        "put: signed": put(replace(FIRST, document={**FIRST.document, "signature": {"keyId": "k", "value": "v"}})),
        "put: told": put(exposed(9, "leave", "go"), call=CallRecord(entry=entry(81), seal=SEAL)),
        "put_all": on(
            lambda definitions: definitions.put_all([(exposed(10, "new", "newer"), None), (SECOND, "hash-2")])
        ),
        "put_all: names change hands": on(
            lambda definitions: definitions.put_all(
                [(exposed(11, "onboarding", "other"), "hash-2"), (exposed(4, "refund", "join"), "hash-1")]
            )
        ),
        "put_all: refused": on(
            lambda definitions: definitions.put_all([(exposed(12, "leave", "left"), "hash-3"), (FIRST, "hash-9")])
        ),
        "delete": on(lambda definitions: definitions.delete("refund")),
        "delete: expected": on(lambda definitions: definitions.delete("refund", expected_hash="hash-4")),
        "delete: another": on(lambda definitions: definitions.delete("onboarding", expected_hash="hash-2")),
    },
    reads={
        "find": on(lambda definitions: definitions.find("hash-1")),
        "find: of a tenant": on(lambda definitions: definitions.find("hash-1", tenant="acme")),
        "find_named": on(lambda definitions: definitions.find_named("refund")),
        "list_newest": on(lambda definitions: definitions.list_newest()),
        "list_newest: of all": on(lambda definitions: definitions.list_newest(tenant=None)),
        "list_page": list_pages,
        "list_versions": on(lambda definitions: definitions.list_versions("refund", limit=1, cursor=number_cursor(9))),
    },
)
