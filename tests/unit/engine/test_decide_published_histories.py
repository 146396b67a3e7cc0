"""Golden histories: what published documents write, row by row, in the published order."""

from penstock.base.json import JsonObject
from penstock.engine import inputs
from tests.unit.engine.runs import T0, begin, published

TOOL: JsonObject = {"id": "a1", "type": "tool_call", "config": {"server": "shop", "tool": "look"}}
IN_PROCESS = [
    "ExecutionStarted",
    "c ScheduleNode s",
    "NodeScheduled s",
    "c CompleteNode s",
    "StateUpdated s",
    "c ScheduleNode a1",
    "NodeScheduled a1",
    "ActivityRequested a1",
    "ActivityCompleted a1",
    "c CompleteNode a1",
    "StateUpdated a1",
    "c ScheduleNode e",
    "NodeScheduled e",
    "c CompleteNode e",
    "ExecutionCompleted",
]


def test_a_tool_call_done_in_process_writes_the_fifteen_published_rows() -> None:
    run = begin(published(TOOL), {"n": 1}).done("a1", {"found": True})
    assert run.told() == IN_PROCESS
    assert run.state.result == {"n": 1, "found": True}


def test_a_host_mediated_tool_call_adds_one_checkpoint_after_its_state() -> None:
    run = begin(published(TOOL), {"n": 1}, mode="host_mediated").done("a1", {"found": True})
    assert run.told() == [*IN_PROCESS[:11], "CheckpointWritten a1", *IN_PROCESS[11:]]
    [checkpoint] = run.of("CheckpointWritten")
    assert checkpoint == {
        "executionId": "run",
        "policy": "after_each_node",
        "workflowVersion": "1.0.0",
        "definitionHash": run.workflow.hash,
        "lastAppliedEventSeq": 11,
        "nodeId": "a1",
        "visit": 1,
        "stateRef": {"kind": "inline_state", "state": {"n": 1, "found": True}},
    }


def test_every_payload_names_the_run_and_the_start_holds_input_and_definition() -> None:
    run = begin(published(TOOL), {"n": 1}).done("a1", {})
    assert all(record.payload["executionId"] == "run" for record in run.records)
    [started] = run.of("ExecutionStarted")
    assert started["workflowName"] == "sample"
    assert started["workflowVersion"] == "1.0.0"
    assert started["inputKeys"] == ["n"]
    assert started["input"] == {"n": 1}
    assert started["definitionHash"] == run.workflow.hash


def test_a_question_has_the_published_rows_before_and_after_its_answer() -> None:
    question: JsonObject = {
        "id": "ask",
        "type": "interrupt",
        "config": {"prompt": "Go?", "resume_schema": {"type": "object", "required": ["ok"]}},
    }
    run = begin(published(question), {})
    assert run.told(5) == [
        "c ScheduleNode ask",
        "NodeScheduled ask",
        "c RaiseInterrupt ask",
        "InterruptRaised ask",
        "CheckpointWritten ask",
    ]
    before = len(run.records)
    run.answer({"ok": True})
    assert run.told(before)[:4] == [
        "c ResumeInterrupt ask",
        "InterruptResumed ask",
        "c CompleteNode ask",
        "StateUpdated ask",
    ]
    assert run.state.result == {"ok": True}


def test_retries_repeat_only_events_and_no_node_fails_in_between() -> None:
    run = begin(published({**TOOL, "retry": {"max_attempts": 3}}), {}).failed("a1").failed("a1").done("a1", {})
    assert len(run.of("ActivityRequested", "a1")) == 3
    assert [payload["willRetry"] for payload in run.of("ActivityFailed", "a1")] == [True, True]
    assert len(run.of("ActivityCompleted", "a1")) == 1
    assert len(run.of("ScheduleNode", "a1")) == 1
    assert run.of("FailNode") == []
    assert [payload["attempt"] for payload in run.of("ActivityRequested", "a1")] == [1, 2, 3]


def test_the_last_failed_attempt_fails_the_node_and_the_run() -> None:
    run = begin(published({**TOOL, "retry": {"max_attempts": 2}}), {}).failed("a1").failed("a1", "E_LAST")
    assert run.told()[-3:] == ["ActivityFailed a1", "c FailNode a1", "ExecutionFailed a1"]
    [failed] = run.of("FailNode")
    assert (failed["reason"], failed["code"], failed["message"]) == ("activity_failed", "E_LAST", "it failed")
    assert run.of("ActivityFailed")[-1].get("willRetry") is None


def test_branches_run_one_after_another_in_listed_order_and_the_rest_is_cancelled() -> None:
    tool: JsonObject = {"server": "shop", "tool": "look"}
    run = begin(
        published(
            {
                "id": "p",
                "type": "parallel",
                "config": {
                    "join": "any",
                    "branches": [{"name": "x", "entry": "a"}, {"name": "y", "entry": "b"}],
                },
            },
            {"id": "a", "type": "tool_call", "config": tool},
            {"id": "b", "type": "tool_call", "config": tool},
            edges=[("__start__", "s"), ("s", "p"), ("p", "e"), ("a", "e"), ("b", "e")],
        ),
        {},
    )
    assert [payload["nodeId"] for payload in run.of("ActivityRequested")] == ["a"]
    run.done("a", {"x": 1})
    commands = [record for record in run.records if record.kind == "command"]
    assert [(record.name, record.payload.get("branchName")) for record in commands if "Parallel" in record.name] == [
        ("StartParallel", None),
        ("CancelParallelBranch", "y"),
        ("JoinParallel", None),
    ]
    assert run.of("ScheduleNode", "b") == []
    assert run.state.result == {"x": 1}
    span = {"parallelNodeId": "p", "joinTargetId": "e", "branchName": "x", "branchEntryNodeId": "a"}
    assert run.of("ActivityRequested", "a")[0]["parallelSpan"] == span


def test_a_wait_of_no_time_completes_inside_the_decision() -> None:
    run = begin(published({"id": "w", "type": "wait", "config": {"kind": "duration", "duration_ms": 0}}), {})
    assert run.told(5)[:6] == [
        "c ScheduleNode w",
        "NodeScheduled w",
        "c StartTimer w",
        "TimerStarted w",
        "TimerFired w",
        "c CompleteNode w",
    ]
    assert run.status == "completed"


def test_a_cancelled_run_has_one_command_and_one_event() -> None:
    run = begin(published(TOOL), {})
    before = len(run.records)
    run.take(inputs.CancelRun(at=T0, reason="not wanted"))
    assert run.told(before) == ["c CancelExecution a1", "ExecutionCancelled a1"]
    assert run.state.cancel_reason == "not wanted"


def test_child_and_delegate_ids_are_the_published_ones() -> None:
    run = begin(
        published(
            {"id": "sub", "type": "subworkflow", "config": {"workflow_ref": "urn:child", "input_mapping": {}}},
            {
                "id": "ask",
                "type": "agent_delegate",
                "config": {"agent_id": "clerk", "protocol": "a2a", "input_mapping": {"n": "${ .n }"}},
            },
        ),
        {"n": 4},
    )
    assert run.of("SubworkflowStarted")[0]["childExecutionId"] == "run:sub:sub"
    run.take(
        inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed", result=1, final_state={"n": 5, "m": 6})
    )
    assert run.state.values == {"n": 5, "m": 6}
    [requested] = run.of("ActivityRequested")
    assert requested["delegateCorrelationId"] == "run:delegate:ask"
    assert requested["delegateInput"] == {"n": 5}
    assert (requested["agentId"], requested["protocol"]) == ("clerk", "a2a")


def test_checkpoints_follow_the_declared_policy() -> None:
    nodes: list[JsonObject] = [
        {"id": f"n{index}", "type": "set_state", "config": {"assignments": {"k": {"literal": index}}}}
        for index in range(4)
    ]
    every_two = begin(published(*nodes, checkpointing={"strategy": "every_n_nodes", "n": 2}), {})
    assert [payload["nodeId"] for payload in every_two.of("CheckpointWritten")] == ["n0", "n2"]
    assert every_two.of("CheckpointWritten")[0]["intervalNodes"] == 2
    assert begin(published(*nodes, checkpointing={"strategy": "none"}), {}).of("CheckpointWritten") == []
    all_of_them = begin(published(*nodes, checkpointing={"strategy": "after_each_node"}), {})
    assert [payload["nodeId"] for payload in all_of_them.of("CheckpointWritten")] == ["s", "n0", "n1", "n2", "n3"]
