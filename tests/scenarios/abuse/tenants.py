"""Cases of tenants who send what is slow to check, to compile or to evaluate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.live.rest.servers import Answer, LiveServer
from tests.scenarios.abuse.cases import Case, at_once, document, waiting
from tests.waiting import SECONDS_MAX

__all__ = ["TENANT_CASES"]

_TRIES = 5


def _doubling(levels: int, keyword: str = "anyOf") -> dict[str, Any]:
    """A schema of some kilobytes whose checks double with each level."""
    held: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**held, f"d{levels}": {"type": "string"}}}


def _codes(answer: Answer) -> set[str]:
    told = answer.json()
    return {item.get("code", "") for item in told.get("findings", [])} | {told.get("code", "")}


def _costly_schemas_are_refused(server: LiveServer) -> None:
    for keyword in ("allOf", "anyOf", "oneOf"):
        sent = {"document": document("costly", input=_doubling(40, keyword))}
        for answer in at_once(10, lambda _, sent=sent: server.request("POST", "workflows/validate", sent)):  # type: ignore[misc]
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
    answers = at_once(3, lambda n: server.request("POST", "workflows/validate", bodies[n], timeout=SECONDS_MAX))
    assert all(answer.status < 500 for answer in answers), [answer.body[:200] for answer in answers]


def _values_made_to_be_slow_are_refused_in_time(server: LiveServer) -> None:
    forking = {"anyOf": [{"required": ["z"], "properties": {"a": {"$ref": "#/$defs/f"}}}] * 6}
    server.call(
        "POST", "workflows", {"document": document("forks", input={"$ref": "#/$defs/f", "$defs": {"f": forking}})}
    )
    value: Any = 1
    for _ in range(30):
        value = {"a": value}
    answers = at_once(
        6, lambda _: server.request("POST", "workflows/forks/executions", {"input": value}, timeout=SECONDS_MAX)
    )
    for answer in answers:
        assert answer.json()["code"] == "INPUT_INVALID", answer.body[:300]
        assert len(answer.body) < 100_000


def _many_violations_stay_small(server: LiveServer) -> None:
    closed = {"type": "object", "additionalProperties": False, "required": [f"r{n}" for n in range(1_000)]}
    server.call("POST", "workflows", {"document": document("closed", input=closed)})
    value: dict[str, Any] = {f"{n}" * 300: [[]] * 200 for n in range(300)}
    for answer in at_once(3, lambda _: server.request("POST", "workflows/closed/executions", {"input": value})):
        assert answer.json()["code"] == "INPUT_INVALID", answer.body[:300]
        assert len(answer.body) < 200_000


def _defaults_inside_defaults_end(server: LiveServer) -> None:
    growing = {"default": {}, "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}
    refused = server.request("POST", "workflows", {"document": document("grows", state=growing)})
    assert refused.status in (400, 422), refused.body[:300]


def _endless_queries_make_nobody_wait(server: LiveServer) -> None:
    run_id = waiting(server)
    other = server.call("POST", "keys", {"name": "other", "scopes": ["execution:read", "execution:write"]})["secret"]

    def query(expression: str, key: str | None = None) -> Answer:
        sent = {"expression": expression}
        return server.request("POST", f"executions/{run_id}/query", sent, key=key, timeout=SECONDS_MAX)

    def is_answered_before_them() -> bool:
        with ThreadPoolExecutor(12) as threads:
            endless = [threads.submit(query, "last(range(1e12))") for _ in range(12)]
            answer = query("[range(3)] | length", other)
            left = sum(not call.done() for call in endless)
            assert answer.status == 200, answer.body[:300]
            assert {call.result().json()["code"] for call in endless} <= {"JQ_FAILED"}
        return left > 4

    query("[range(2)]", other)
    # Who has to wait for all of them waits every time. Who does not may still be late on a machine that is busy: the
    # endless ones end by the clock, whether or not there was a processor for the process that answers the other key.
    assert any(is_answered_before_them() for _ in range(_TRIES)), "the other key waits for all of them"
    long = query('"\\(.)"|' * 1_500 + ".")
    assert long.status in (200, 422), long.body[:300]


TENANT_CASES: tuple[Case, ...] = (
    Case("schemas that double with each level", _costly_schemas_are_refused),
    Case("documents that are slow to compile", _documents_made_to_be_slow_hold_up_nobody),
    Case("values that are slow to check", _values_made_to_be_slow_are_refused_in_time),
    Case("more violations than anybody reads", _many_violations_stay_small),
    Case("defaults inside defaults", _defaults_inside_defaults_end),
    Case("endless queries of one key", _endless_queries_make_nobody_wait),
)
