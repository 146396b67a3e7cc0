"""Where conformance tests put workflows in: `POST /v1/host/sample/workflows`.

Off unless the operator says otherwise, and then only on a server that nobody but its own machine reaches. It needs a
key with the scope that importing workflows needs, and does nothing that `workflow.import` would not do.

Above it: `runs` serves it. Below it: `operations.openwop_packs`, the gate.
"""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.openwop.exchange import Exchange
from penstock.operations.workflows.openwop_packs import imported_document

__all__ = ["SEAM_PATH", "put_workflow_in"]

SEAM_PATH = "/v1/host/sample/workflows"


async def put_workflow_in(exchange: Exchange, *, mounted: bool) -> JsonObject:
    """Store the workflow of a request; whoever has no key hears so before anything else."""
    await exchange.tenant()
    body = await exchange.body()
    document, node_count = imported_document(body, mounted=mounted)
    await exchange.call("workflow.import", {"workflows": [document], "overwrite": True})
    return {"workflowId": body.get("workflowId", body.get("id")), "nodeCount": node_count, "id": document["name"]}
