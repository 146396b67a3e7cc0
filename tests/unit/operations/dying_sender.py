"""A server that sends events and never learns of an answer, because it is killed: `python -m … FILE`."""

from __future__ import annotations

import asyncio
import sys

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.operations.gate.context import WebhookChoices
from tests.unit.operations.conftest import Caller, change_services
from tests.unit.operations.receiver import dispatching


async def main(path: str) -> None:
    """Send until this process is killed."""
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        change_services(gate, webhooks=WebhookChoices(allow_private_addresses=True))
        async with dispatching(Caller(gate, local_owner(), penstock)):
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
