"""Stands for the MCP servers that the examples name: `python tools.py shop` offers the tools of `shop`, over a pipe.

Above it: the settings beside it. Below it: the MCP library, which comes with Penstock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from mcp.server.mcpserver import MCPServer


def get_order(id: str) -> dict[str, object]:
    """Look up an order."""
    return {"id": id, "total": 240.0, "customer": "Ada"}


def create_account(person: str, system: str) -> dict[str, str]:
    """Create an account for a person."""
    return {"account": f"{person}@{system}"}


def remove_account(account: str) -> dict[str, str]:
    """Remove an account."""
    return {"removed": account}


def send_message(to: str, text: str) -> dict[str, str]:
    """Send a message."""
    return {"sent_to": to}


def get_pull_request(repository: str, number: int) -> dict[str, object]:
    """Read a pull request."""
    return {"diff": "+print('hello')", "lines": 1, "author": "ada", "title": "Say hello", "number": number}


def get_labels(repository: str, number: int) -> dict[str, list[str]]:
    """Read the labels of a pull request."""
    return {"names": ["small"]}


def add_comment(repository: str, number: int, text: str) -> dict[str, str]:
    """Comment on a pull request."""
    return {"comment": text}


def merge(repository: str, number: int) -> dict[str, bool]:
    """Merge a pull request."""
    return {"merged": True}


def create_ticket(queue: str = "", subject: str = "", body: str = "") -> dict[str, str]:
    """Create a ticket."""
    return {"ticket": "T-3"}


def page_on_call(text: str = "") -> dict[str, str]:
    """Page who is on call."""
    return {"paged": "ada"}


def publish_page(text: str) -> dict[str, str]:
    """Publish a page."""
    return {"url": "https://www.example.com/page"}


def search(query: str, results_max: int) -> dict[str, list[str]]:
    """Search the web."""
    return {"results": [f"a page about {query}"]}


def search_papers(query: str) -> dict[str, list[str]]:
    """Search papers."""
    return {"papers": [f"a paper about {query}"]}


SERVERS: dict[str, list[Callable[..., object]]] = {
    "chat": [send_message],
    "code_host": [get_pull_request, get_labels, add_comment, merge],
    "directory": [create_account, remove_account],
    "helpdesk": [create_ticket],
    "library": [search_papers],
    "pager": [page_on_call],
    "shop": [get_order],
    "web": [search],
    "website": [publish_page],
}


if __name__ == "__main__":
    server = MCPServer(sys.argv[1])
    for tool in SERVERS[sys.argv[1]]:
        server.add_tool(tool)
    server.run(transport="stdio")
