"""A server whose address space is nearly used up refuses single calls on every surface, and lives on."""

from __future__ import annotations

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from penstock.governance.webhook_signatures import sign_request
from penstock.runtime.system import SystemClock
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.test_full_disk import AGENT, HOOKED, SECRET, shown
from tests.scenarios.test_hanging_up import BOTH, modern

SPARE: Final = 100 * 1024 * 1024
ROUNDS: Final = 6
LARGE: Final[list[Any]] = [[number, str(number)] for number in range(60_000)]


def address_space(server: LiveServer) -> int:
    pages = int(Path(f"/proc/{server.running.pid}/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def test_running_out_of_memory_is_an_error_of_single_calls(tmp_path: Path) -> None:
    with serving(tmp_path, PENSTOCK_SECRET_HOOK_SECRET=SECRET) as server:
        server.call("POST", "models", {"id": "m", "provider": "mock", "model": "m", "replies": ["hello"]})
        for document in (HOOKED, AGENT):
            server.call("POST", "workflows", {"document": document})
        headers, calling = modern("tools/call", name="hooked", arguments={"rows": LARGE})
        parts = [{"text": "hi"}, {"data": LARGE}]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
        send = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        hook = json.dumps({"rows": LARGE}).encode()

        def call(number: int) -> tuple[int, str]:
            match number % 4:
                case 0:
                    answer = shown(server, "workflows/hooked/executions", {"input": {"rows": LARGE}})
                case 1:
                    answer = shown(server, "/mcp", calling, Accept=BOTH, **headers)
                case 2:
                    answer = shown(server, "/a2a/helper", send, A2A_Version="1.0")
                case _:
                    signature = sign_request(SECRET, hook, now_ms=SystemClock().now_ms())
                    answer = shown(server, "/hooks/hooked", hook, X_Penstock_Signature=signature)
            return answer[0], answer[1][:300]

        for number in range(4):  # what a first call imports is there
            assert call(number)[0] < 500
        before = resource.prlimit(server.running.pid, resource.RLIMIT_AS)
        resource.prlimit(server.running.pid, resource.RLIMIT_AS, (address_space(server) + SPARE, before[1]))
        with ThreadPoolExecutor(8) as callers:
            answers = list(callers.map(call, range(4 * ROUNDS)))
        refused = [answer for answer in answers if "OUT_OF_MEMORY" in answer[1]]
        assert {number % 4 for number, answer in enumerate(answers) if answer in refused} == {0, 1, 2, 3}
        assert {status for status, _ in refused} <= {200, 503}, "a JSON-RPC error may have the status 200"
        assert [answer for answer in answers if "INTERNAL_ERROR" in answer[1] or answer[0] == 500] == []
        resource.prlimit(server.running.pid, resource.RLIMIT_AS, before)
        assert call(0)[0] < 300
        assert server.stop() == 0
        assert not any("traceback" in entry for entry in server.rest_of_log())
