"""The anchors of `benchmarks.mcp`: servers that list the same tools and answer the same value as the product.

    python -P peers.py raw|sdk|sdk_json|fastmcp PORT TOOLS.json RESULT.json

Runs in the environment of the peers, on the same server software with the same settings as the product (uvicorn,
httptools, uvloop). What they list and return is made before the first request; nothing of it is authenticated,
filtered, looked up, validated, charged or written down:

- raw: an ASGI function that takes the id out of the request's JSON and sends bytes that it has.
- sdk: the low-level server of the MCP SDK as it comes; it is told the tools' schemas, which is its fastest way.
- sdk_json: the same with `json_response`, which gives up streaming for speed.
- fastmcp: FastMCP as it comes.

`-P` keeps this folder off the path: a module here is called `mcp` too.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import uvicorn

_NAME = "anchor"


def raw_app(tools: list[dict[str, Any]], result: dict[str, Any]) -> Any:
    """Bytes from memory."""
    info = {"io.modelcontextprotocol/serverInfo": {"name": _NAME, "version": "1"}}
    listed = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": info}
    answers = {
        "tools/list": json.dumps(listed, separators=(",", ":")).encode() + b"}",
        "tools/call": json.dumps({**result, "_meta": info}, separators=(",", ":")).encode() + b"}",
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        request = json.loads(message["body"] or b'{"id":0,"method":"tools/list"}')
        head = f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":'.encode()
        body = head + answers[request["method"]]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def sdk_app(tools: list[dict[str, Any]], result: dict[str, Any], *, json_response: bool) -> Any:
    """The SDK's low-level server."""
    types = importlib.import_module("mcp_types")
    server_type = importlib.import_module("mcp.server.lowlevel.server").Server
    listed = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools])
    called = types.CallToolResult.model_validate(result)
    schemas = {tool["name"]: tool["inputSchema"] for tool in tools}

    async def list_tools(context: Any, params: Any) -> Any:
        return listed

    async def call_tool(context: Any, params: Any) -> Any:
        return called

    server = server_type(
        _NAME,
        version="1",
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    return server.streamable_http_app(json_response=json_response)


def fastmcp_app(tools: list[dict[str, Any]], result: dict[str, Any]) -> Any:
    """FastMCP with tools whose schemas are given."""
    types = importlib.import_module("mcp_types")
    fastmcp = importlib.import_module("fastmcp")
    tool_module = importlib.import_module("fastmcp.tools")
    called = types.CallToolResult.model_validate(result)

    class Given(tool_module.Tool):  # type: ignore[misc, name-defined]  # of another environment
        async def run(self, arguments: dict[str, Any]) -> Any:
            return tool_module.ToolResult(content=called.content, structured_content=called.structured_content)

    server = fastmcp.FastMCP(_NAME, version="1")
    for tool in tools:
        server.add_tool(
            Given(
                name=tool["name"],
                title=tool.get("title"),
                description=tool.get("description"),
                parameters=tool["inputSchema"],
                output_schema=tool.get("outputSchema"),
                annotations=types.ToolAnnotations.model_validate(tool.get("annotations", {})),
                meta=tool.get("_meta"),
            )
        )
    return server.http_app(path="/mcp")


def main() -> None:
    """Serve until the process is ended."""
    kind, port = sys.argv[1], int(sys.argv[2])
    tools, result = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[3:5])
    if kind == "raw":
        app = raw_app(tools, result)
    elif kind.startswith("sdk"):
        app = sdk_app(tools, result, json_response=kind.endswith("_json"))
    else:
        app = fastmcp_app(tools, result)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off" if kind == "raw" else "on",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
