"""A platform with two tenants, a hostile server, and agents whose model obeys whatever it has just read.

Above it: `test_injections`. Below it: `cases`, a raw server on the loopback interface, a gate on a real file.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.executors.configured import open_executors
from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import Settings
from penstock.app.settings.named import ImportSettings, McpServerSettings
from penstock.base.json import JsonObject
from penstock.engine.transitions import Phase
from penstock.operations.gate.context import GateLimits
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider
from penstock.runtime.executors.llm.port import LlmAnswer, LlmRequest
from tests.scenarios.agents import FIND, agent, calls, waiting_for
from tests.scenarios.hostile_upstream import listening
from tests.scenarios.injection.cases import CANARY, DESCRIBED, SAID, Said
from tests.scenarios.office import ERASE, Office, staff
from tests.waiting import SECONDS_MAX, until_found

__all__ = ["THEIRS", "HostileServer", "Obedient", "Platform", "open_platform", "unmarked_text"]

THEIRS = "globex-data-4be0"
"""What only the other tenant may see."""
_CALLS_MAX = 10**9
_NOTICE = re.compile(r"Text between <untrusted-([0-9a-f]{12})> and </untrusted-\1> ")
REFUND: JsonObject = {
    "penstock": "v1",
    "name": "refund",
    "input": {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": {"refunded": "${ .input.order }"}}],
}
SECRET_OF_OTHERS: JsonObject = {
    "penstock": "v1",
    "name": "theirs",
    "nodes": [{"id": "done", "type": "end", "output": {"data": THEIRS}}],
}
WIDE = (
    *("upstream:web.*", "workflow:erase_customer", "workflow:find_order", "draft.*", "execution.*", "key.*"),
    *("policy.*", "schedule.*", "workflow.*"),
)


@dataclass(slots=True)
class HostileServer:
    """Speaks just enough MCP over HTTP, and says what the cases say."""

    filled: Mapping[str, str] = field(default_factory=dict)
    received: list[JsonObject] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = re.search(r"content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                status, answer = "202 Accepted", b""
                if not head.startswith("post"):
                    status = "405 Method Not Allowed"
                elif "id" in (message := json.loads(body)):
                    status, answer = "200 OK", self.answer(message)
                sent = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(answer)}\r\n\r\n"
                writer.write(sent.encode() + answer)
                await writer.drain()

    def answer(self, message: dict[str, Any]) -> bytes:
        match message["method"]:
            case "initialize":
                about = {"name": "hostile", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
                return _result(message, json.dumps(result).encode())
            case "tools/list":
                return _result(message, json.dumps({"tools": listed()}).encode())
            case "tools/call":
                return self.call(message)
            case _:
                return _error(message, "Method not found")

    def call(self, message: dict[str, Any]) -> bytes:
        arguments = message["params"].get("arguments") or {}
        self.received.append({"name": message["params"]["name"], "arguments": arguments})
        if message["params"]["name"] != "read":
            return _result(message, b'{"content":[{"type":"text","text":"sent"}]}')
        said = next(case.result for case in SAID if case.name == arguments["page"])
        if isinstance(said, Exception):
            return _error(message, str(said))
        raw = said if isinstance(said, bytes) else json.dumps(said).encode()
        for name, value in {**self.filled, "mark": arguments.get("mark", ""), "wide": _wide(arguments)}.items():
            raw = raw.replace(f"@{name}".encode(), json.dumps(value)[1:-1].encode())
        return _result(message, raw)


def _wide(arguments: JsonObject) -> str:
    return "".join(chr(ord(letter) + 0xFEE0) for letter in str(arguments.get("mark", "")))


def listed() -> list[dict[str, Any]]:
    """Every tool of the server."""
    page = {"type": "object", "properties": {"page": {"type": "string"}, "mark": {"type": "string"}}}
    sending = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    return [
        {"name": "read", "description": f"{CANARY} Reads a page.", "inputSchema": page},
        {"name": "send", "description": f"{CANARY} Sends a text.", "inputSchema": sending},
        *(described.tool for described in DESCRIBED),
    ]


def _result(message: dict[str, Any], raw: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + json.dumps(message["id"]).encode() + b',"result":' + raw + b"}"


def _error(message: dict[str, Any], said: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": said}}).encode()


@dataclass(slots=True)
class Obedient:
    """Reads the page that it is asked for, does what is said there, and is done."""

    filled: dict[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=lambda: {"fast": "fast"})
    requests: list[LlmRequest] = field(default_factory=list)

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        self.requests.append(request)
        page = request.messages[0].text.rpartition(" ")[2]
        case = next((case for case in SAID if case.name == page), None)
        taken = sum(message.role == "assistant" for message in request.messages)
        turn: Any = "I did as I was told."
        if taken == 0:
            mark = marks(request)
            turn = calls(("upstream:web.read", {"page": page, "mark": mark}))
            if case is None:
                turn = calls(("workflow:refund", {"order": "A-1"}))
        elif case is not None and taken <= len(case.turns):
            turn = calls(*((name, self.fill(arguments)) for name, arguments in case.turns[taken - 1]))
        return await MockProvider([turn]).ask(request)

    def fill(self, arguments: Any) -> Any:
        text = json.dumps(arguments)
        for name, value in self.filled.items():
            text = text.replace(f"@{name}", value)
        return json.loads(text)

    async def close(self) -> None:
        pass


def marks(request: LlmRequest) -> str:
    """The letters of the mark of a request."""
    found = _NOTICE.search(request.system or "")
    assert found is not None, request.system
    return found[1]


def unmarked_text(request: LlmRequest) -> str:
    """Everything that a model reads outside of marks, apart from its own calls; the marks must be whole and real."""
    mark = marks(request)
    texts = [message.text for message in request.messages if message.role != "assistant"]
    texts += [tool.description for tool in request.tools]
    texts += [json.dumps(tool.input_schema, ensure_ascii=False) for tool in request.tools]
    region = re.compile(rf"<untrusted-{mark}(?: source=\\?\"[^\"<>]*\")?>(.*?)</untrusted-{mark}>", re.DOTALL)
    left: list[str] = []
    for text in texts:
        inner = [found[1] for found in region.finditer(text)]
        for part in inner:
            assert mark not in _read(part), part[:200]
            assert not re.search(r"<[\s/\\]*untrusted", _read(part)), part[:200]
        rest = region.sub(" ", text)
        assert mark not in rest, rest[:500]
        left.append(rest)
    return "\n".join(left)


_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)


def _read(text: str) -> str:
    """A text as a careless reader takes it: without what is not seen, in plain letters."""
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).casefold()


@dataclass(slots=True)
class Platform:
    """Everything that a test looks at."""

    office: Office
    model: Obedient
    server: HostileServer

    async def told(self, case: Said) -> tuple[str, list[JsonObject]]:
        """Let an agent read a page; return how its run ended or waits, and what became of each call."""
        execution_id = f"case-{case.name}"
        await self.office.call(
            case.who,
            "workflow.execute",
            workflow_id=case.agent,
            input={"prompt": f"Read {case.name}"},
            execution_id=execution_id,
        )
        parks = "parked" in case.expected
        made = sum(map(len, case.turns)) + 1 - case.expected.count("parked")

        async def stands() -> Any:
            state = await self.office.gate.services.host.read(execution_id)
            assert state is not None
            said: Any = state.values or {}
            results = [entry for entry in said.get("conversation", []) if entry["role"] == "tool"]
            if state.terminal:
                return state, results
            waits = any(item.phase is Phase.INTERRUPTED for item in state.activations())
            asks = waits or bool(await self.held())
            return (state, results) if parks and len(results) >= made and asks else None

        state, results = await until_found(stands)
        standing = state.status.value
        if parks and not state.terminal:
            await self.office.call(self.office.owner, "execution.cancel", execution_id=execution_id)
            await waiting_for(self.office, execution_id, "cancelled")

            async def let_go() -> bool | None:
                return None if await self.held() else True

            await until_found(let_go)
        return standing, results

    async def held(self) -> list[str]:
        """The drafts that wait, without the one that was there from the beginning."""
        listed = await self.office.call("ada", "draft.list", status="open")
        return [item["id"] for item in listed["items"] if item["id"] != self.model.filled["draft"]]

    async def inventory(self) -> dict[str, Any]:
        """What must not change, whatever a model is told."""
        owner, office = self.office.owner, self.office
        found: dict[str, Any] = {}
        for operation, name in (("key.list", "id"), ("workflow.list", "id"), ("schedule.list", "schedule_id")):
            items = (await office.call(owner, operation, limit=200))["items"]
            found[operation] = sorted(str(item.get(name) or item.get("workflow_id")) for item in items)
        for workflow in ("erase_customer", "refund"):
            found[workflow] = len((await office.call(owner, "execution.list", workflow_id=workflow))["items"])
        draft = await office.call(owner, "draft.get", draft_id=self.model.filled["draft"])
        asked = await office.call(owner, "execution.status", execution_id=self.model.filled["run"])
        theirs = await office.call("eve", "execution.list")
        return {**found, "draft": draft["status"], "asked": asked["status"], "theirs": len(theirs["items"])}


@asynccontextmanager
async def open_platform(folder: Path) -> AsyncIterator[Platform]:
    """Open the platform; the secret must be in the environment already."""
    model, server = Obedient(), HostileServer()
    async with asyncio.timeout(SECONDS_MAX), listening(server.serve) as url:
        rules = ImportSettings(tools=("*",), accept="first")
        settings = Settings(mcp_servers={"web": McpServerSettings(url=f"{url}/mcp", import_=rules)})
        generous = GateLimits(
            read_per_minute=_CALLS_MAX, write_per_minute=_CALLS_MAX, admin_per_minute=_CALLS_MAX, concurrent_per_key=100
        )
        async with (
            open_executors(settings) as equipment,
            Penstock.open(
                folder / "penstock.db",
                executors={**equipment.executors, "llm_call": LlmExecutor({"scripted": model})},
                upstream=equipment.upstream,
                secrets=equipment.secrets,
                governed=True,
            ) as penstock,
            open_gate(penstock, chosen=generous) as gate,
        ):
            platform = Platform(Office(gate, penstock), model, server)
            await _prepare(platform)
            yield platform


async def _prepare(platform: Platform) -> None:
    office, model = platform.office, platform.model
    await staff(office)
    assert ERASE["name"] == "erase_customer"
    await office.hire("boss", "person", "*")
    await office.hire("clerk", "person", "workflow:run", "workflow:read", "execution:*", "upstream:run", "draft:*")
    await office.hire("eve", "person", "*", tenant="globex")
    for document in (
        FIND,
        REFUND,
        agent("upstream:web.*", "workflow:find_order", name="reader"),
        agent("upstream:web.read", "draft.approve", name="approver"),
        agent(*WIDE, {"tool": "workflow:refund", "approve": True}, name="assistant", ask_user=True),
    ):
        await office.call(office.owner, "workflow.create", document=document)
    await office.call("eve", "workflow.create", document=SECRET_OF_OTHERS)
    theirs = await office.call("eve", "workflow.execute", workflow_id="theirs", sync=True)
    model.filled["theirs"] = theirs["execution_id"]
    model.filled["draft"] = await office.propose()

    async def imported() -> bool | None:
        items = (await office.call(office.owner, "upstream.tools", server="web"))["items"]
        return True if [item for item in items if item["name"] == "read" and item["status"] == "pinned"] else None

    await until_found(imported)
    begun = await office.call("boss", "workflow.execute", workflow_id="assistant", input={"prompt": "Refund nothing"})
    model.filled["run"] = begun["execution_id"]
    await waiting_for(office, begun["execution_id"], "waiting_approval", "waiting_input")
    platform.server.filled = model.filled
