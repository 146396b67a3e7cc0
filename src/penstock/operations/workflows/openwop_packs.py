"""Workflows that others wrote for the pack `core.openwop.mcp`, as documents that can be imported here.

Above it: the OpenWOP wire. Below it: `definitions.openwop_documents`. It stores nothing: `workflow.import` does.
"""

from __future__ import annotations

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.definitions.openwop_documents import PackProblem, native_document, placed_nodes
from penstock.definitions.shapes.openwop_pack import PACK, PACK_PEER, PACK_VERSION

__all__ = ["imported_document"]

_CODES = {
    "invalid": "PACK_WORKFLOW_INVALID",
    "unsupported": "PACK_NODE_UNSUPPORTED",
    "unmounted": "PACK_PEER_DEPENDENCY_MISSING",
}


def imported_document(workflow: JsonObject, *, mounted: bool) -> tuple[JsonObject, int]:
    """The document of a workflow and the number of its nodes; `Rejected` says why there is none.

    What the server's side of the pack declares has no meaning where MCP is not `mounted`: then it is refused.
    """
    nodes = placed_nodes(workflow)
    if isinstance(nodes, PackProblem):
        raise _refusal(nodes)
    needing = [node for node in nodes if node.known is not None and node.known.side == "server"]
    if needing and not mounted:
        told = f"{PACK} {PACK_VERSION} needs {PACK_PEER}, and MCP is not mounted on this server"
        missing = PackProblem(
            kind="unmounted",
            message=told,
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
    told: JsonObject = {name: value for name, value in details.items() if value is not None}
    return Rejected(_CODES[problem.kind], problem.message, problem.hint, told)
