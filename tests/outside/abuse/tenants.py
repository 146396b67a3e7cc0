"""Cases of hostile tenants, and a probe that measures what everybody else notices of them."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.live.rest.servers import Answer, LiveServer

__all__ = ["CASES", "Case", "Probe", "doubling", "probing"]

SECONDS_MAX = 120.0


def doubling(levels: int, keyword: str = "anyOf") -> dict[str, Any]:
    """A schema of some kilobytes whose checks double with each level."""
    held: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**held, f"d{levels}": {"type": "string"}}}


def document(name: str, **more: Any) -> dict[str, Any]:
    """A workflow that ends at once."""
    return {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": "${ .input }"}], **more}


@dataclass(slots=True)
class Probe:
    """How long `/healthz` takes, asked all the time on one connection."""

    port: int
    milliseconds: list[float] = field(default_factory=list)
    failures: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        while not self._ended.wait(0.01):
            began = time.perf_counter()
            try:
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
                answer.read()
                self.failures += answer.status != 200
            except (OSError, http.client.HTTPException):
                self.failures += 1
                connection.close()
            self.milliseconds.append((time.perf_counter() - began) * 1000)
        connection.close()

    def collected(self, count: int) -> None:
        """Wait until it has asked so many times."""
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.milliseconds) < count and time.monotonic() < deadline:
            self._ended.wait(0.01)

    def end(self) -> None:
        self._ended.set()

    def percentile(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


@contextmanager
def probing(server: LiveServer) -> Iterator[Probe]:
    """Measure while the block lasts."""
    probe = Probe(server.port)
    asking = threading.Thread(target=probe.run, daemon=True)
    asking.start()
    try:
        yield probe
    finally:
        probe.end()
        asking.join(SECONDS_MAX)


@dataclass(frozen=True, slots=True)
class Case:
    """Something hostile, which raises AssertionError where the server does not hold."""

    name: str
    attack: Callable[[LiveServer], None]


def _at_once(count: int, call: Callable[[int], Answer]) -> list[Answer]:
    with ThreadPoolExecutor(min(count, 32)) as threads:
        return list(threads.map(call, range(count)))


def _codes(answer: Answer) -> set[str]:
    told = answer.json()
    return {item.get("code", "") for item in told.get("findings", [])} | {told.get("code", "")}


def _costly_schemas_are_refused(server: LiveServer) -> None:
    for keyword in ("allOf", "anyOf", "oneOf"):
        sent = {"document": document("costly", input=doubling(40, keyword))}
        for answer in _at_once(10, lambda _, sent=sent: server.request("POST", "workflows/validate", sent)):  # type: ignore[misc]
            assert "SCHEMA_TOO_COSTLY" in _codes(answer), answer.body[:300]
        refused = server.request("POST", "workflows", sent)
        assert refused.status == 422, refused.body[:300]


def _documents_made_to_be_slow_hold_up_nobody(server: LiveServer) -> None:
    patterns = {f"p{n}": {"type": "string", "pattern": rf"^[\p{{L}} ]{{1,{100 + n % 80}}}$"} for n in range(120)}
    slow = {"document": document("slow", input={"type": "object", "properties": patterns})}
    long = {"document": document("long", output={}, triggers=[])}
    long["document"]["nodes"] = [{"id": "done", "type": "end", "output": "${ " + "label $f|" * 1_500 + ". }"}]
    aliases = "penstock: v1\nname: laughs\na: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    bodies: list[dict[str, Any]] = [slow, long, {"source": aliases}]
    answers = _at_once(6, lambda n: server.request("POST", "workflows/validate", bodies[n % 3], timeout=SECONDS_MAX))
    assert all(answer.status < 500 for answer in answers), [answer.body[:200] for answer in answers]


def _values_made_to_be_slow_are_refused_in_time(server: LiveServer) -> None:
    forking = {"anyOf": [{"required": ["z"], "properties": {"a": {"$ref": "#/$defs/f"}}}] * 6}
    server.call(
        "POST", "workflows", {"document": document("forks", input={"$ref": "#/$defs/f", "$defs": {"f": forking}})}
    )
    value: Any = 1
    for _ in range(30):
        value = {"a": value}
    answers = _at_once(
        6, lambda _: server.request("POST", "workflows/forks/executions", {"input": value}, timeout=SECONDS_MAX)
    )
    for answer in answers:
        assert answer.json()["code"] == "INPUT_INVALID", answer.body[:300]
        assert len(answer.body) < 100_000


def _many_violations_stay_small(server: LiveServer) -> None:
    closed = {"type": "object", "additionalProperties": False, "required": [f"r{n}" for n in range(1_000)]}
    server.call("POST", "workflows", {"document": document("closed", input=closed)})
    value: dict[str, Any] = {f"{n}" * 300: [[]] * 200 for n in range(300)}
    for answer in _at_once(3, lambda _: server.request("POST", "workflows/closed/executions", {"input": value})):
        assert answer.json()["code"] == "INPUT_INVALID", answer.body[:300]
        assert len(answer.body) < 200_000


def _defaults_inside_defaults_end(server: LiveServer) -> None:
    growing = {"default": {}, "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}
    refused = server.request("POST", "workflows", {"document": document("grows", state=growing)})
    assert refused.status in (400, 422), refused.body[:300]


def _waiting(server: LiveServer, name: str = "waits") -> str:
    nodes = [{"id": "wait", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}]
    server.request("POST", "workflows", {"document": {"penstock": "v1", "name": name, "nodes": nodes}})
    started = server.call("POST", f"workflows/{name}/executions", {"input": {"a": 1}})
    run_id: str = started["execution_id"]
    return run_id


def _endless_queries_make_nobody_wait(server: LiveServer) -> None:
    run_id = _waiting(server)
    other = server.call("POST", "keys", {"name": "other", "scopes": ["execution:read", "execution:write"]})["secret"]

    def query(expression: str, key: str | None = None) -> Answer:
        sent = {"expression": expression}
        return server.request("POST", f"executions/{run_id}/query", sent, key=key, timeout=SECONDS_MAX)

    query("[range(2)]", other)
    with ThreadPoolExecutor(12) as threads:
        endless = [threads.submit(query, "last(range(1e12))") for _ in range(12)]
        began = time.monotonic()
        answer = query("[range(3)] | length", other)
        waited = time.monotonic() - began
        assert answer.status == 200, answer.body[:300]
        assert sum(not call.done() for call in endless) > 4, f"the other key waited {waited:.1f} s for all of them"
        assert {call.result().json()["code"] for call in endless} <= {"JQ_FAILED"}
    long = query('"\\(.)"|' * 1_500 + ".")
    assert long.status in (200, 422), long.body[:300]


CASES: tuple[Case, ...] = (
    Case("schemas that double with each level", _costly_schemas_are_refused),
    Case("documents that are slow to compile", _documents_made_to_be_slow_hold_up_nobody),
    Case("values that are slow to check", _values_made_to_be_slow_are_refused_in_time),
    Case("more violations than anybody reads", _many_violations_stay_small),
    Case("defaults inside defaults", _defaults_inside_defaults_end),
    Case("endless queries of one key", _endless_queries_make_nobody_wait),
)
