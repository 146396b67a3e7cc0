"""Expressions that do not end are stopped, and everything goes on."""

import asyncio
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import (
    Evaluated,
    EvaluationFailed,
    Expression,
    InProcessEvaluator,
    NotAnExpression,
    WouldWait,
    compile_expression,
    load_expression,
)
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, load_schema, violations
from penstock.runtime.sandbox import worker as guarded_worker
from penstock.runtime.sandbox.documents import DocumentChecks
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from tests.scenarios.loop_stalls import watched_loop
from tests.waiting import SECONDS_MAX, wait_until

BUDGET_MS = 500
# A worker that is killed has to be replaced, and the machine may be busy.
SLACK_MS = 15_000


@pytest.fixture(scope="module")
def evaluator() -> Iterator[SandboxedEvaluator]:
    with SandboxedEvaluator(time_budget_ms=BUDGET_MS) as guarded:
        yield guarded


@pytest.fixture(scope="module")
def patient() -> Iterator[SandboxedEvaluator]:
    """For what must succeed, however busy the machine is."""
    with SandboxedEvaluator(time_budget_ms=60_000) as guarded:
        yield guarded


def compiled(text: str) -> Expression:
    expression = compile_expression(text)
    assert isinstance(expression, Expression), expression
    return expression


@pytest.mark.parametrize(
    ("text", "root"),
    [
        (".a", {"a": [1, 2]}),
        (".a + 1", {"a": 1}),
        (".a * .b", {"a": 3, "b": 4}),
        ("[range(3)]", None),
        ('.a | test("^x")', {"a": "xyz"}),
        ("reduce .a[] as $x (0; . + $x)", {"a": [1, 2.5]}),
        ("empty, 1, 2", None),
        ("..", {"é": "\U0001f600"}),
        ('error("no")', None),
        (".a - .b", {"a": "x", "b": 1}),
        ("recurse | nan", None),
    ],
)
def test_results_are_the_same_as_in_the_process(patient: SandboxedEvaluator, text: str, root: JsonValue) -> None:
    expression = compiled(text)
    assert patient.evaluate(expression, root) == InProcessEvaluator().evaluate(expression, root)


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("last(range(1e12))", None),
        ("[range(1e9)]", None),
        ("def f: f; f", None),
        ("[limit(1e9; repeat(1))] | length", None),
        ("until(false; .)", None),
        ('"x" * .n', {"n": 2_000_000_000}),
        ("reduce range(1e7) as $i (0; [.])", None),
        ('[range(40)] | map("^(a+)+$") | map(. as $re | "\\("a" * 40)b" | test($re))', None),
        (".a - .b", {"a": list(range(30_000)), "b": list(range(30_000, 60_000))}),
    ],
)
def test_an_expression_that_does_too_much_fails_in_time_and_the_next_one_works(
    evaluator: SandboxedEvaluator, text: str, root: JsonValue
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expression = compiled(text)
    assert not expression.bounded
    started = time.monotonic()
    outcome = evaluator.evaluate(expression, root)
    elapsed_ms = (time.monotonic() - started) * 1000
    assert isinstance(outcome, EvaluationFailed)
    assert elapsed_ms < BUDGET_MS + SLACK_MS
    assert evaluator.evaluate(compiled("[range(3)]"), None) == Evaluated([0, 1, 2])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_the_message_says_what_happened(evaluator: SandboxedEvaluator) -> None:
    slow = evaluator.evaluate(compiled("last(range(1e12))"), None)
    assert slow == EvaluationFailed("the expression took longer than 0.5 s and was stopped; make it do less")
    large = evaluator.evaluate(compiled('"x" * .n'), {"n": 2_000_000_000})
    assert isinstance(large, EvaluationFailed)
    assert "memory" in large.message


def test_a_large_root_is_evaluated_outside_of_the_process(patient: SandboxedEvaluator) -> None:
    root: JsonValue = {"items": [{"price": number} for number in range(20_000)]}
    assert patient.evaluate(compiled(".items | map(.price) | add"), root) == Evaluated(sum(range(20_000)))
    assert patient.pool.idle


def test_data_that_cannot_be_written_is_a_failure(evaluator: SandboxedEvaluator) -> None:
    assert isinstance(evaluator.evaluate(compiled("[.a, range(2)]"), {"a": "\ud800"}), EvaluationFailed)


def test_the_environment_of_the_server_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "hidden")
    with SandboxedEvaluator() as guarded:
        assert guarded.evaluate(compiled("[range(2)]"), None) == Evaluated([0, 1])
        (worker,) = guarded.pool.idle
        with open(f"/proc/{worker.process.pid}/environ", "rb") as environment:
            assert b"hidden" not in environment.read()


def test_several_threads_may_evaluate_at_once(patient: SandboxedEvaluator) -> None:
    expression = compiled("[range(.n)] | length")
    wrong: list[Evaluated | EvaluationFailed] = []

    def work(number: int) -> None:
        for _ in range(20):
            outcome = patient.evaluate(expression, {"n": number})
            if outcome != Evaluated(number):
                wrong.append(outcome)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_closing_ends_the_worker_and_a_later_evaluation_starts_another() -> None:
    guarded = SandboxedEvaluator()
    guarded.close()
    assert guarded.evaluate(compiled("[range(2)]"), None) == Evaluated([0, 1])
    (first,) = guarded.pool.idle
    guarded.close()
    assert first.process.returncode is not None
    assert guarded.evaluate(compiled("[range(2)]"), None) == Evaluated([0, 1])
    guarded.close()


def test_no_worker_is_started_for_bounded_expressions() -> None:
    guarded = SandboxedEvaluator()
    assert guarded.evaluate(compiled(".a + 1"), {"a": 1}) == Evaluated(2)
    assert not guarded.pool.idle


def test_a_worker_that_was_killed_is_replaced() -> None:
    with SandboxedEvaluator() as guarded:
        guarded.evaluate(compiled("[range(2)]"), None)
        (worker,) = guarded.pool.idle
        worker.process.kill()
        worker.process.wait()
        assert isinstance(guarded.evaluate(compiled("[range(2)]"), None), EvaluationFailed)
        assert guarded.evaluate(compiled("[range(2)]"), None) == Evaluated([0, 1])


def test_the_worker_ends_when_its_server_does() -> None:
    program = (
        "import os, sys\n"
        "from penstock.definitions.jq.expressions import compile_expression\n"
        "from penstock.runtime.sandbox.evaluator import SandboxedEvaluator\n"
        "guarded = SandboxedEvaluator()\n"
        "guarded.evaluate(compile_expression('[range(2)]'), None)\n"
        "print(guarded.pool.idle[0].process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    server = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    worker_id = int(server.stdout)
    deadline = time.monotonic() + SECONDS_MAX
    while is_running(worker_id) and time.monotonic() < deadline:
        os.sched_yield()
    assert not is_running(worker_id)


def is_running(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_worker_answers_line_by_line() -> None:
    replies = io.BytesIO()
    requests = io.BytesIO(
        b'["jq","[range(2)]",null]\n["jq",".a",{"a":{"b":1}}]\n["jq","now",null]\n["jq","error(\\"x\\")",1]\n'
        b'["schema",{"type":"string"},1]\n'
    )
    guarded_worker.serve(requests, replies)
    assert replies.getvalue().splitlines() == [
        b'{"value":[0,1]}',
        b'{"value":{"b":1}}',
        b'{"error":"`now` is not allowed in an expression: it reads the clock, so a replay would get another value",'
        b'"problem":true,"hint":"take the time from the data (`.run.started_at`)"}',
        b'{"error":"x"}',
        b'{"violations":[{"instance_path":"","keyword":"type","message":"must be string","subject":null}]}',
    ]


def test_the_time_in_which_a_worker_gets_no_processor_is_not_charged_to_its_expression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "WORKER_CLOCK_FACTOR_MAX", SECONDS_MAX * 1000 / BUDGET_MS)
    with SandboxedEvaluator(time_budget_ms=BUDGET_MS) as guarded, ThreadPoolExecutor(1) as threads:
        guarded.evaluate(compiled("[range(2)]"), None)
        (worker,) = guarded.pool.idle
        worker.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        answer = threads.submit(guarded.evaluate, compiled("[range(3)]"), None)
        try:
            wait_until(lambda: time.monotonic() - began > 2 * BUDGET_MS / 1000)
            assert not answer.done()
        finally:
            worker.process.send_signal(signal.SIGCONT)
        assert answer.result(SECONDS_MAX) == Evaluated([0, 1, 2])


def test_a_worker_that_gets_no_processor_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKER_CLOCK_FACTOR_MAX", 1)
    with SandboxedEvaluator(time_budget_ms=BUDGET_MS) as guarded:
        wait_until(lambda: guarded.evaluate(compiled("[range(2)]"), None) == Evaluated([0, 1]))
        (worker,) = guarded.pool.idle
        worker.process.send_signal(signal.SIGSTOP)
        assert isinstance(guarded.evaluate(compiled("[range(3)]"), None), EvaluationFailed)
        assert not guarded.pool.idle
        assert worker.process.returncode == -signal.SIGKILL


def test_a_worker_whose_server_has_died_ends_when_a_request_has_computed_for_far_too_long() -> None:
    program = (
        "from penstock.base import limits\n"
        "from penstock.runtime.sandbox import worker\n"
        "limits.JQ_TIME_BUDGET_MS = 20\n"
        "worker.main()\n"
    )
    request = b'["jq","last(range(1e12))",null]\n'
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, input=request, capture_output=True, check=False, timeout=SECONDS_MAX)
    assert (ended.returncode, ended.stdout) == (-signal.SIGPROF, guarded_worker.READY)


def test_an_endless_expression_does_not_hold_up_those_of_other_threads() -> None:
    with SandboxedEvaluator(time_budget_ms=2_000) as evaluator, ThreadPoolExecutor(2) as threads:
        endless = threads.submit(evaluator.evaluate, compiled("last(range(1e12))"), None)
        others = [threads.submit(evaluator.evaluate, compiled("[range(3)]"), None) for _ in range(3)]
        assert [other.result() for other in others] == [Evaluated([0, 1, 2])] * 3
        assert isinstance(endless.result(), EvaluationFailed)


# --- schemas, documents, stopping ----------------------------------------------------------------

_FORKING: JsonObject = {"anyOf": [{"required": ["z"], "properties": {"a": {"$ref": "#"}}}] * 6}


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_value_that_takes_for_ever_to_check_does_not_fit(evaluator: SandboxedEvaluator) -> None:
    schema = load_schema(_FORKING)
    assert isinstance(schema, CompiledSchema)
    with pytest.raises(WouldWait):
        evaluator.prompt.violations(schema, nested(40))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (violation,) = evaluator.violations(schema, nested(40))
    assert violation.keyword == "schema"
    assert "cannot be checked" in violation.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_large_values_are_checked_in_a_worker_with_the_same_outcome(patient: SandboxedEvaluator) -> None:
    schema = compile_schema({"items": {"type": "array"}})
    assert isinstance(schema, CompiledSchema)
    assert patient.violations(schema, [[]] * 100_000) == ()
    value: JsonValue = [*([[]] * 50_000), 1, "x"]
    assert patient.violations(schema, value) == violations(schema, value)


def test_a_long_program_is_compiled_in_a_worker_only(patient: SandboxedEvaluator) -> None:
    text = '"\\(.)"|' * 200 + "."
    long = load_expression(text)
    assert isinstance(long, Expression)
    assert long.program is None
    with pytest.raises(WouldWait):
        patient.prompt.evaluate(long, 1)
    assert patient.evaluate(long, 1) == Evaluated("1")
    wrong = load_expression("." + " " * 2_000 + "|")
    assert isinstance(wrong, Expression)
    assert isinstance(patient.evaluate(wrong, 1), NotAnExpression)


def test_closing_ends_what_is_under_way_and_nothing_is_taken_for_its_outcome() -> None:
    guarded = SandboxedEvaluator(time_budget_ms=60_000)
    with ThreadPoolExecutor(1) as threads:
        endless = threads.submit(guarded.evaluate, compiled("last(range(1e12))"), None)
        deadline = time.monotonic() + SECONDS_MAX
        while not guarded.pool._busy and time.monotonic() < deadline:
            os.sched_yield()
        guarded.close()
        with pytest.raises(Unavailable):
            endless.result(timeout=SECONDS_MAX)


def test_documents_of_hostile_shape_are_checked_in_a_process() -> None:
    async def body() -> None:
        checks = DocumentChecks()
        hostile: JsonObject = {
            "penstock": "v1",
            "name": "hostile",
            "input": {"properties": {f"p{n}": {"pattern": rf"^[\p{{L}} ]{{1,{100 + n}}}$"} for n in range(20)}},
            "nodes": [{"id": "done", "type": "end", "output": "${ " + '"\\(.)"|' * 400 + ". }"}],
        }
        async with watched_loop() as stalls:
            assert await checks.findings(hostile, tenant="a") == ()
        assert stalls.worst < 1
        document, findings = await checks.check_source("penstock: v1\nname: x\nnodes: &n []\nother: *n\n", tenant="a")
        assert isinstance(document, dict)
        assert {finding.position is not None for finding in findings} == {True}
        checks.close()

    asyncio.run(body())
