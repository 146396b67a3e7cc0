"""FastMCP on the same documents, in an environment of its own.

python fastmcp_peer.py list DOCUMENT.json             prints the tools and how long it took
python fastmcp_peer.py call DOCUMENT.json CALLS.json  prints the request of each call, or null
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

import httpx2

# It is installed in an environment of its own.
fastmcp = import_module("fastmcp")


def server(document: Any, seen: list[dict[str, Any]], routes: dict[str, list[str]]) -> Any:
    """The tools of a document. `routes` gets the method and path of each by its name."""

    def remember(route: Any, component: Any) -> None:
        routes[component.name] = [route.method.lower(), route.path]

    def answer(request: httpx2.Request) -> httpx2.Response:
        body = request.content.decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append({"method": request.method, "url": str(request.url), "headers": headers, "body": body})
        return httpx2.Response(200, json={})

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="https://api.example")
    return fastmcp.FastMCP.from_openapi(document, client=client, validate_output=False, mcp_component_fn=remember)


async def main() -> None:
    """List the tools, or call them."""
    with open(sys.argv[2], "rb") as file:  # noqa: ASYNC230  # a script
        document = json.load(file)
    seen: list[dict[str, Any]] = []
    routes: dict[str, list[str]] = {}
    began = time.process_time()
    made = server(document, seen, routes)
    seconds = time.process_time() - began
    async with fastmcp.Client(made) as client:
        tools = await client.list_tools()
        if sys.argv[1] == "list":
            listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
            print(json.dumps({"seconds": seconds, "tools": listed, "routes": routes}))
            return
        with open(sys.argv[3], "rb") as file:  # noqa: ASYNC230  # a script
            calls = json.load(file)
        requests: list[dict[str, Any] | None] = []
        for name, arguments in calls:
            seen.clear()
            with suppress(Exception):  # whatever goes wrong, there is no request
                await client.call_tool(name, arguments, raise_on_error=False)
            requests.append(seen[0] if seen else None)
        print(json.dumps(requests))


logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
asyncio.run(main())
