"""What tenants register, and small values under names."""

from __future__ import annotations

from penstock.runtime.ports.platform import ANY_ETAG, CallRecord
from penstock.runtime.tables.listings import id_cursor
from penstock.runtime.tables.resources import (
    delete_resource,
    drop_mark,
    list_all_resources,
    list_resources,
    put_resource,
    put_resources,
    read_mark,
    read_resource,
    set_mark,
    stored_resource,
    write_deletions,
)
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import AT, SEAL, claim, entry, resource

__all__ = ["RESOURCES"]

RESOURCES = Family(
    given=[
        lambda database: put_resource(database, resource("refund"), expected_etag=None),
        lambda database: put_resource(database, resource("second"), expected_etag=None),
        lambda database: set_mark(database, "place", 1),
    ],
    changes={
        "put_resource: new": lambda database: put_resource(database, resource("third"), expected_etag=None),
        "put_resource: expected": lambda database: put_resource(
            database, resource("refund", etag="etag-2"), expected_etag="etag-1"
        ),
        "put_resource: whatever is there": lambda database: put_resource(
            database, resource("third", etag="etag-3", created_at=AT + 1), expected_etag=ANY_ETAG
        ),
        "put_resource: audited": lambda database: put_resource(
            database,
            resource("refund", etag="etag-4"),
            expected_etag="etag-1",
            call=CallRecord(entry=entry(60), seal=SEAL, claim=claim("put"), answer={"status": 200}),
        ),
        "put_resources": lambda database: put_resources(
            database, [resource("third", etag="etag-5", created_at=AT + 2), resource("refund", etag="etag-5")]
        ),
        "put_resources: again": lambda database: put_resources(
            database, [resource("refund", etag="etag-6"), resource("third", etag="etag-6", kind="tool")]
        ),
        "delete_resource: expected": lambda database: delete_resource(
            database, "acme", "schema", "refund", expected_etag="etag-1"
        ),
        "delete_resource: whatever is there": lambda database: delete_resource(
            database, "acme", "schema", "third", expected_etag=ANY_ETAG
        ),
        "write_deletions": lambda database: database.write(
            lambda transaction: write_deletions(transaction, "acme", "schema", ["third", "second"])
        ),
        "set_mark": lambda database: set_mark(database, "place", 2),
        "set_mark: new": lambda database: set_mark(database, "other", 3),
        "drop_mark": lambda database: drop_mark(database, "place"),
    },
    reads={
        "stored_resource": lambda database: database.read(
            lambda reader: stored_resource(reader, "acme", "schema", "refund")
        ),
        "read_resource": lambda database: read_resource(database, "acme", "schema", "refund"),
        "list_resources": lambda database: list_resources(
            database, "acme", "schema", limit=1, cursor=id_cursor("a"), prefix="r"
        ),
        "list_all_resources": lambda database: list_all_resources(database, "schema"),
        "read_mark": lambda database: read_mark(database, "place"),
    },
)
