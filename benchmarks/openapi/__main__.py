"""Five public OpenAPI documents as tools, here and with FastMCP's `from_openapi`, in one run.

    scripts/benchmark openapi [--quick]

- usable: the share of operations that can be called as the document describes them; `judge` says what that means.
  The same judge calls every tool of both with arguments made from the tool's own schema.
- bytes: the tools as a client reads them. Ours are what a real server lists (`penstock mcp`, five hundred tools at
  most); the mean bytes of a tool are compared. FastMCP lists what tools answer with, we do so only if the settings ask.
- seconds: processor time from the text of the document to the tools.

A document that a side refuses as a whole has no usable operation there. `--quick` leaves the two largest documents out.
The last line is one JSON object; `ok` if every target holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks.openapi.judge import METHODS, Judge, sample
from benchmarks.openapi.specifications import SPECIFICATIONS, Specification, fetch
from benchmarks.servers import missed_targets
from penstock.base import limits
from penstock.runtime.upstreams.openapi.document import ApiDocument, ReferenceProblem, read_document
from penstock.runtime.upstreams.openapi.operations import ApiOperation, import_operations
from penstock.runtime.upstreams.openapi.requests import RequestProblem, build_request

__all__ = ["measure"]

_ROOT = Path(__file__).resolve().parents[2]
_PEER = _ROOT / ".venv" / "fastmcp"
_TARGETS = {
    "openapi_usable_ratio_to_fastmcp": ("at_least", 1.0),
    "openapi_list_bytes_ratio_to_fastmcp": ("at_most", 1.0),
}
_LARGE = ("github", "kubernetes")
_PEER_SECONDS_MAX = 900


def _ensure_peer() -> Path:
    """Return the interpreter of an environment with FastMCP, made from its pins."""
    python, stamp = _PEER / "bin" / "python", _PEER / ".pins"
    pins = _ROOT / "requirements" / "clients" / "fastmcp-4.txt"
    if not stamp.exists() or stamp.read_bytes() != pins.read_bytes():
        venv.create(_PEER, clear=True, with_pip=False, symlinks=True)
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run(
            [uv, "pip", "sync", "-q", "--require-hashes", "--python", str(python), str(pins)],
            check=True,
            timeout=_PEER_SECONDS_MAX,
        )
        stamp.write_bytes(pins.read_bytes())
    return python


def _ours(document: ApiDocument, operations: dict[str, ApiOperation]) -> tuple[int, Counter[str]]:
    tools = [{"name": name, "inputSchema": item.input_schema} for name, item in operations.items()]
    judge, problems, usable = Judge(document, tools), Counter[str](), 0
    for tool, operation in zip(tools, operations.values(), strict=True):
        problem = judge.listed_problem(tool)
        if problem is None:
            request: dict[str, Any] | None = None
            try:
                made = build_request(operation, "https://api.example", sample(operation.input_schema), boundary="b")
                headers = {name.lower(): value for name, value in made.headers.items()}
                body = (made.content or b"").decode("utf-8", "replace")
                request = {"method": made.method, "url": made.url, "headers": headers, "body": body}
            except RequestProblem:
                pass
            problem = judge.request_problem(operation.method.lower(), operation.path, request)
        usable += problem is None
        if problem is not None:
            problems[problem.partition(" ")[0]] += 1
    return usable, problems


def _theirs(python: Path, document: ApiDocument, folder: Path) -> dict[str, Any]:
    file, calls_file = folder / "document.json", folder / "calls.json"
    file.write_bytes(msgspec.json.encode(document.root))
    program = str(Path(__file__).with_name("fastmcp_peer.py"))
    listed = _printed([str(python), "-P", program, "list", str(file)], folder)
    if listed is None:
        return {"usable": 0, "tools": 0, "bytes": 0, "seconds": None, "problems": {"document refused": 1}}
    tools, routes = listed["tools"], listed["routes"]
    judge, problems, usable = Judge(document, tools), Counter[str](), 0
    calls: list[tuple[str, Any]] = []
    for tool in tools:
        problem = judge.listed_problem(tool)
        if problem is not None:
            problems[problem] += 1
            continue
        try:
            calls.append((tool["name"], sample(tool["inputSchema"])))
        except (KeyError, TypeError, RecursionError):
            problems["schema"] += 1
    calls_file.write_text(json.dumps(calls), encoding="utf-8")
    requests = _printed([str(python), "-P", program, "call", str(file), str(calls_file)], folder) or [None] * len(calls)
    for (name, _), request in zip(calls, requests, strict=True):
        method, path = routes[name]
        problem = judge.request_problem(method, path, request)
        usable += problem is None
        if problem is not None:
            problems[problem.partition(" ")[0]] += 1
    size = sum(len(msgspec.json.encode(tool)) for tool in tools)
    return {
        "usable": usable,
        "tools": len(tools),
        "bytes": size,
        "seconds": listed["seconds"],
        "problems": dict(problems),
    }


def _printed(command: list[str], folder: Path) -> Any:
    done = subprocess.run(command, check=False, capture_output=True, timeout=_PEER_SECONDS_MAX, cwd=folder)
    return json.loads(done.stdout) if done.returncode == 0 else None


async def _listed_bytes(file: Path, folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of our tools as a real server lists them."""
    api = {"document": str(file), "base_url": "https://api.example", "import": {"tools": ["*"], "accept": "first"}}
    settings = {"apis": {"api": api}}
    (folder / "penstock.yaml").write_bytes(msgspec.json.encode(settings))
    penstock = str(Path(sys.executable).with_name("penstock"))
    server = StdioServerParameters(command=penstock, args=["mcp"], cwd=str(folder), env=dict(os.environ))
    async with asyncio.timeout(_PEER_SECONDS_MAX), Client(stdio_client(server)) as client:
        while True:
            tools: list[Any] = []
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor)
                tools.extend(tool for tool in page.tools if tool.name.startswith("api_"))
                cursor = page.next_cursor
                if cursor is None:
                    break
            if tools:  # the document is read in the background, and all of its tools come at once
                break
            await asyncio.sleep(0.2)
    size = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools)
    return size, len(tools)


def _count(document: ApiDocument) -> int:
    number = 0
    for path, item in document.root["paths"].items():  # type: ignore[union-attr]
        try:
            number += len([method for method in METHODS if path.startswith("/") and method in document.resolved(item)])
        except ReferenceProblem:
            continue
    return number


def _one(specification: Specification, python: Path) -> dict[str, Any]:
    file = fetch(specification)
    began = time.process_time()
    document = read_document(file.read_bytes(), name=specification.name)
    imported = import_operations(document)
    seconds = time.process_time() - began
    usable, problems = _ours(document, dict(imported.operations))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size, listed = asyncio.run(_listed_bytes(file, folder))
        theirs = _theirs(python, document, folder)
    operations = _count(document)
    return {
        "operations": operations,
        "usable": usable,
        "refused": len(imported.refused),
        "problems": dict(problems),
        "seconds": round(seconds, 3),
        "bytes_per_tool": round(size / max(1, listed)),
        "fastmcp_usable": theirs["usable"],
        "fastmcp_problems": theirs["problems"],
        "fastmcp_seconds": theirs["seconds"] and round(theirs["seconds"], 3),
        "fastmcp_bytes_per_tool": round(theirs["bytes"] / max(1, theirs["tools"])) or None,
    }


def measure(*, quick: bool) -> dict[str, Any]:
    """Measure all documents, and print each as it is done."""
    python = _ensure_peer()
    found: dict[str, dict[str, Any]] = {}
    for specification in SPECIFICATIONS:
        if not quick or specification.name not in _LARGE:
            found[specification.name] = _one(specification, python)
            print(json.dumps({specification.name: found[specification.name]}), file=sys.stderr, flush=True)
    both = [item for item in found.values() if item["fastmcp_bytes_per_tool"]]
    ours = sum(item["usable"] for item in found.values()) / sum(item["operations"] for item in found.values())
    theirs = sum(item["fastmcp_usable"] for item in found.values()) / sum(item["operations"] for item in found.values())
    return {
        "openapi_usable": round(ours, 4),
        "openapi_usable_fastmcp": round(theirs, 4),
        "openapi_usable_ratio_to_fastmcp": round(ours / theirs, 3) if theirs else None,
        "openapi_list_bytes_ratio_to_fastmcp": round(
            sum(item["bytes_per_tool"] for item in both) / sum(item["fastmcp_bytes_per_tool"] for item in both), 3
        ),
        "openapi_tools_listed_at_most": limits.UPSTREAM_TOOLS_MAX,
        "documents": found,
    }


def main() -> None:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave the two largest documents out")
    figures = measure(quick=parser.parse_args().quick)
    missed = missed_targets(figures, _TARGETS)
    print(json.dumps({**figures, "missed": missed, "ok": not missed}))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
