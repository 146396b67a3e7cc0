"""The queue of deliveries."""

from __future__ import annotations

from penstock.runtime.tables.deliveries import (
    add_deliveries,
    change_delivery,
    claim_delivery,
    forget_deliveries,
    list_deliveries,
    list_due_deliveries,
    read_delivery,
    read_next_delivery_at,
    save_delivery,
)
from penstock.runtime.tables.listings import number_cursor
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import AT, delivery

__all__ = ["DELIVERIES"]

DELIVERIES = Family(
    given=[
        lambda database: add_deliveries(
            database, [delivery(0), delivery(1, state="dead"), delivery(2, state="delivered")]
        )
    ],
    changes={
        "add_deliveries": lambda database: add_deliveries(database, [delivery(5), delivery(6), delivery(0)]),
        "add_deliveries: the other way round": lambda database: add_deliveries(
            database, [delivery(6, run_id="again"), delivery(5, run_id="again"), delivery(2)]
        ),
        "save_delivery": lambda database: save_delivery(database, delivery(0, attempts=1, state="delivered")),
        "save_delivery: again": lambda database: save_delivery(
            database, delivery(0, attempts=2, last_status=500, updated_at=AT + 3)
        ),
        "save_delivery: tried once more": lambda database: save_delivery(
            database, delivery(1, attempts=3, updated_at=AT + 20)
        ),
        "save_delivery: dead again": lambda database: save_delivery(
            database, delivery(1, attempts=4, state="dead", updated_at=AT + 20)
        ),
        "claim_delivery": lambda database: claim_delivery(database, delivery(0), now=AT + 4, until=AT + 9),
        "claim_delivery: later": lambda database: claim_delivery(database, delivery(0), now=AT + 5, until=AT + 10),
        "change_delivery": lambda database: change_delivery(
            database, delivery(0), delivery(0, attempts=1, state="delivered", next_at=None, updated_at=AT + 6)
        ),
        "forget_deliveries": lambda database: forget_deliveries(database, before=AT + 9, limit=5),
    },
    reads={
        "list_due_deliveries": lambda database: list_due_deliveries(database, now=AT, limit=5),
        "read_next_delivery_at": read_next_delivery_at,
        "read_delivery": lambda database: read_delivery(database, "acme", "d_0"),
        "list_deliveries": lambda database: list_deliveries(
            database, "acme", endpoint_id="crm", state="dead", limit=5, cursor=number_cursor(9)
        ),
    },
)
