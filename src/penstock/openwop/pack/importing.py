"""Importing workflows of the pack `core.openwop.mcp`: `POST /v1/host/sample/workflows`, for conformance tests.

The route is off unless the operator turns it on (`server.openwop.seam`), and then only on a server that listens only on
its own machine. It needs a key with the scope for importing workflows, and does nothing that `workflow.import` would
not do.
"""

from __future__ import annotations

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.openwop.exchange import Exchange
from penstock.openwop.pack.documents import PackProblem, native_document, placed_nodes
from penstock.openwop.pack.node_types import PACK, PACK_PEER, PACK_VERSION

__all__ = ["IMPORT_PATH", "import_workflow", "imported_document"]

IMPORT_PATH = "/v1/host/sample/workflows"

_CODES = {
    "invalid": "PACK_WORKFLOW_INVALID",
    "unsupported": "PACK_NODE_UNSUPPORTED",
    "unmounted": "PACK_PEER_DEPENDENCY_MISSING",
}


async def import_workflow(exchange: Exchange, *, mounted: bool) -> JsonObject:
    """Store the workflow of a request; a caller without a key is refused before anything is read.

    If a person has to accept it first, the answer names the draft, and nothing is stored yet.
    """
    await exchange.tenant()
    body = await exchange.body()
    document, node_count = imported_document(body, mounted=mounted)
    stored = await exchange.call("workflow.import", {"workflows": [document], "overwrite": True}, may_wait=True)
    answer = {"workflowId": body.get("workflowId", body.get("id")), "nodeCount": node_count, "id": document["name"]}
    held = stored.get("held")
    if held is not None:
        answer |= {"status": "waiting-approval", "draftId": held["draft_id"]}
    return answer


def imported_document(workflow: JsonObject, *, mounted: bool) -> tuple[JsonObject, int]:
    """Return the native document of a workflow and the number of its nodes; raises `Rejected` if it cannot be
    converted.

    The server's node types mean nothing where MCP is not `mounted`, and are refused then.
    """
    nodes = placed_nodes(workflow)
    if isinstance(nodes, PackProblem):
        raise _refusal(nodes)
    needing = [node for node in nodes if node.known is not None and node.known.side == "server"]
    if needing and not mounted:
        message = f"{PACK} {PACK_VERSION} needs {PACK_PEER}, and MCP is not mounted on this server"
        missing = PackProblem(
            kind="unmounted",
            message=message,
            hint="set server.mcp.enabled and server.openwop.mcp",
            type_id=needing[0].type_id,
            node_id=needing[0].node_id,
        )
        raise _refusal(missing, peer=PACK_PEER)
    document = native_document(workflow)
    if isinstance(document, PackProblem):
        raise _refusal(document)
    return document, len(nodes)


def _refusal(problem: PackProblem, peer: str | None = None) -> Rejected:
    details = {"offendingTypeId": problem.type_id, "nodeId": problem.node_id, "requiredCapability": peer}
    message: JsonObject = {name: value for name, value in details.items() if value is not None}
    return Rejected(_CODES[problem.kind], problem.message, problem.hint, message)
