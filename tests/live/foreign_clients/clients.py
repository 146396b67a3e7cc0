"""The clients that others wrote: where each is installed, and how it is run on a server or over a pipe.

Above it: `run`. Below it: environments that `scripts/clients` has installed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import httpx2

from tests.conformance.mcp_suite.node import ROOT, node_programs
from tests.waiting import SECONDS_MAX

__all__ = ["CLIENTS", "ENVIRONMENTS", "Client", "Place"]

ENVIRONMENTS = ROOT / ".clients"
_DRIVERS = Path(__file__).with_name("drivers")
_INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
_REMOTE = "mcp-remote/dist/proxy.js"
_PAUSE_SECONDS = 0.2

Mode: TypeAlias = Literal["observe", "hang"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client finds a server: an address with a key, or a command to start."""

    url: str
    key: str
    command: tuple[str, ...]
    folder: Path
    """In which the command is run."""

    def environment(self) -> dict[str, str]:
        """For the process of a client."""
        return {**os.environ, "PENSTOCK_API_KEY": self.key, "HOME": str(self.folder), "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class Client:
    """A client in one version; `kinds` are the transports that it is tried with."""

    name: str
    driver: str
    environment: str = ""
    """Of Python: the name of its environment. Of Node.js: the package."""
    kinds: tuple[str, ...] = ("http", "pipe")
    through_proxy: bool = False

    def arguments(self, mode: Mode, kind: str, place: Place) -> list[str]:
        """The command that runs it."""
        where = list(place.command) if kind.startswith("pipe") else [place.url + _path(kind)]
        if self.through_proxy:
            where = _proxied(place)
        driver = str(_DRIVERS / self.driver)
        if self.driver.endswith(".py"):
            return [str(ENVIRONMENTS / self.environment / "bin" / "python"), driver, mode, kind, *where]
        programs = node_programs()
        shown = "sse" if kind == "sse-first" else kind
        return [programs.command, driver, mode, str(programs.modules / self.environment), shown, *where]

    def hanging(self, kind: str, place: Place) -> subprocess.Popen[bytes] | None:
        """A process that waits for something long, or None for a client that cannot be made to."""
        if not self.driver:
            return None
        return subprocess.Popen(
            self.arguments("hang", kind, place),
            cwd=place.folder,
            env=place.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def observed(self, kind: str, place: Place) -> Any:
        """What it saw."""
        if not self.driver:
            return _inspected(kind, place)
        done = _run(self.arguments("observe", kind, place), place)
        if done.returncode != 0:
            return {"connect": {"name": None, "code": done.returncode, "said": done.stderr[-1_500:]}}
        return json.loads(done.stdout)


def _path(kind: str) -> str:
    return "/mcp/sse" if kind in ("sse", "sse:auto", "sse:legacy") else "/mcp"


def _run(arguments: Sequence[str], place: Place) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            arguments,
            cwd=place.folder,
            env=place.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(error.cmd, -1, "", f"there was no end within {SECONDS_MAX:g} s")


def _proxied(place: Place) -> list[str]:
    """A command that speaks over a pipe and asks the server over HTTP."""
    header = ("--header", "Authorization:${AUTHORIZATION}")
    return [
        "env",
        f"AUTHORIZATION=Bearer {place.key}",
        *node_programs().run(_REMOTE, f"{place.url}/mcp", *header, "--allow-http", "--transport", "http-only"),
    ]


def _inspected(kind: str, place: Place) -> Any:
    """What the command line of the Inspector got, a process for each call."""
    transport, _, era = kind.partition(":")
    # There is nobody at its command line to be asked, and it would wait for them for ever.
    entry: dict[str, Any] = {"protocolEra": era, "elicitCapability": False}
    if transport == "pipe":
        entry |= {"type": "stdio", "command": place.command[0], "args": place.command[1:], "cwd": str(place.folder)}
    else:
        entry |= {"type": "streamable-http", "url": f"{place.url}/mcp"}
        entry["headers"] = {"Authorization": f"Bearer {place.key}"}
    config = place.folder / "inspector-servers"
    config.write_text(json.dumps({"mcpServers": {"penstock": entry}}), encoding="utf-8")
    where = ("--config", str(config), "--server", "penstock")

    def run(*options: str) -> tuple[int, Any]:
        done = _run(node_programs().run(_INSPECTOR, "--cli", *where, *options, "--format", "json"), place)
        try:
            return done.returncode, json.loads(done.stdout)["result"]
        except (ValueError, KeyError):
            return done.returncode, {"said": f"{done.stdout}\n{done.stderr}"}

    def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
        code, result = run("--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(given))
        if "content" not in result:
            return {"raised": True, "is_error": True, "text": result["said"], "code": code}
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        return {"raised": False, "is_error": result.get("isError") is True, "text": text}

    _, listed = run("--method", "tools/list")
    waits = "answered" if era == "modern" else "waiting"
    refund = partial(call, "refund_order", {"order": "A-1"})
    return {
        "connect": None,
        "list": [tool["name"] for tool in listed.get("tools", [])],
        "right": call("greet", {"name": "Ada"}),
        "wrong": call("greet", {"name": "Ada", "tone": "rude", "more": 1}),
        "unknown": call("nothing", {}),
        "failing": call("stumble", {}),
        # As a task it waits until somebody answers, wherever they do.
        waits: _answered_elsewhere(refund, place) if era == "modern" else refund(),
        "large": call("big", {}),
    }


def _answered_elsewhere(call: Callable[[], dict[str, Any]], place: Place) -> dict[str, Any]:
    """What a call gave whose question was answered over REST while it waited."""
    api = httpx2.Client(base_url=f"{place.url}/api/v0", headers={"Authorization": f"Bearer {place.key}"})
    with api, ThreadPoolExecutor(1) as caller:
        runs = "/workflows/refund/executions?status=waiting_input&limit=500"
        before = {item["execution_id"] for item in api.get(runs).json()["items"]}
        under_way = caller.submit(call)
        while not under_way.done():
            asked = {item["execution_id"] for item in api.get(runs).json()["items"]} - before
            for run in asked:
                answer = {"answer": {"approved": True, "reason": "answered elsewhere"}}
                api.post(f"/executions/{run}/answers", json=answer).raise_for_status()
            wait([under_way], timeout=_PAUSE_SECONDS)
        return under_way.result()


_SDK = "@modelcontextprotocol/sdk"
_ERAS = ("http:auto", "http:legacy", "pipe:auto", "pipe:legacy", "sse:auto", "sse:legacy")
CLIENTS = (
    Client("typescript-1.11", "typescript_v1.mjs", "sdk-1.11", ("http", "pipe", "sse", "sse-first")),
    Client("typescript-1.20", "typescript_v1.mjs", "sdk-1.20", ("http", "pipe", "sse", "sse-first")),
    Client("typescript-1.32", "typescript_v1.mjs", _SDK, ("http", "pipe", "sse", "sse-first")),
    Client("typescript-2", "typescript_v2.mjs", "@modelcontextprotocol/client", _ERAS),
    Client("inspector", "", kinds=("http:modern", "http:legacy", "pipe:legacy")),
    Client("mcp-remote", "typescript_v1.mjs", _SDK, ("pipe",), through_proxy=True),
    Client("python-1.9", "python_v1.py", "mcp-1.9", ("http", "pipe", "sse")),
    Client("python-1.12", "python_v1.py", "mcp-1.12"),
    Client("python-1.20", "python_v1.py", "mcp-1.20"),
    Client("python-1.30", "python_v1.py", "mcp-1.30", ("http", "pipe", "sse")),
    Client("python-2.0", "python_v2.py", "mcp-2.0", _ERAS),
    Client("python-2.3", "python_v2.py", "mcp-2.3", _ERAS),
    Client("fastmcp-3", "fastmcp_client.py", "fastmcp-3"),
    Client("fastmcp-4", "fastmcp_client.py", "fastmcp-4"),
    Client("langchain", "langchain_tools.py", "langchain"),
    Client("pydantic-ai", "pydantic_ai_toolset.py", "pydantic-ai"),
    Client("openai-agents", "openai_agents_server.py", "openai-agents", ("http", "pipe", "sse")),
)
