"""When a call is a task, whose it is, and what its end is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import Denied
from penstock.mcp_surface.callers import ProtocolFault
from tests.unit.mcp_surface.assistants import Assistant, accept, assisted, exposed

pytestmark = pytest.mark.anyio

ANSWER = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
WHO = {"id": "who", "type": "interrupt", "message": "Who are you?", "answer": ANSWER}
SAY = {"id": "done", "type": "end", "output": "${ .who.name }"}
NAP = {"id": "nap", "type": "wait", "duration": "1h"}
BROKEN = (
    {"id": "way", "type": "switch", "cases": [{"when": "true", "next": "fall"}], "default": "done"},
    {"id": "fall", "type": "fail", "code": "PROTOCOL_ERROR", "message": "it is not what it should be"},
    {"id": "done", "type": "end"},
)
STUMBLED = (*BROKEN[:1], {**BROKEN[1], "code": "FELL"}, *BROKEN[2:])
WORKFLOWS = (
    exposed("quick", {"id": "done", "type": "end", "output": "done"}),
    exposed("slow", NAP, {"id": "done", "type": "end"}),
    exposed("always", {"id": "done", "type": "end", "output": "done"}, task="required"),
    exposed("later", WHO, NAP, SAY, task="after_questions"),
    exposed("talk", WHO, SAY),
    exposed("broken", *BROKEN),
    exposed("broken_task", *BROKEN, task="required"),
    exposed("stumbled_task", *STUMBLED, task="required"),
)


async def ended(assistant: Assistant, task_id: str) -> Any:
    await assistant.caller.call("execution.wait", execution_id=task_id)
    return await assistant.task(task_id)


async def test_by_itself_only_what_takes_longer_is_a_task(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        assert (await assistant.call("quick", tasks=True))["structuredContent"]["output"] == "done"
        slow = await assistant.call("slow", tasks=True)
        assert slow == {"resultType": "task", "taskId": slow["taskId"]}
        assert (await assistant.task(slow["taskId"]))["status"] == "working"
        talk = await assistant.call("talk", tasks=True)
        assert talk["resultType"] == "task"


async def test_what_must_be_a_task_is_one_and_not_to_be_had_without(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        with pytest.raises(ProtocolFault) as refused:
            await assistant.call("always")
        assert refused.value.code == -32021
        assert refused.value.data == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
        assert await assistant.executions() == []
        made = await assistant.call("always", tasks=True)
        assert made["resultType"] == "task"
        done = await ended(assistant, made["taskId"])
        assert (done["status"], done["result"]["structuredContent"]["output"]) == ("completed", "done")


async def test_questions_come_before_the_task_where_the_document_says_so(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        asked = await assistant.call("later", tasks=True)
        assert (asked["resultType"], "taskId" in asked) == ("input_required", False)
        made = await assistant.call(
            "later", tasks=True, state=asked["requestState"], answers={"who": accept(name="Ada")}
        )
        assert made == {"resultType": "task", "taskId": made["taskId"]}
        task = await assistant.task(made["taskId"])
        assert (task["status"], "requestState" in task, "inputRequests" in task) == ("working", False, False)
        assert len(await assistant.executions()) == 1


async def test_no_code_that_a_workflow_chooses_is_an_error_of_the_protocol(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        result = await assistant.call("broken")
        assert (result["isError"], result["_meta"]["penstock/error"]["code"]) == (True, "PROTOCOL_ERROR")
        made = await assistant.call("broken_task", tasks=True)
        task = await ended(assistant, made["taskId"])
        assert (task["status"], task["result"]["isError"], "error" in task) == ("completed", True, False)


async def test_a_profile_that_must_show_an_error_of_the_protocol_names_its_code(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        assistant.options = replace(assistant.options, protocol_faults=frozenset({"PROTOCOL_ERROR"}))
        with pytest.raises(ProtocolFault) as fault:
            await assistant.call("broken")
        assert (fault.value.code, fault.value.message) == (-32603, "it is not what it should be")
        made = await assistant.call("broken_task", tasks=True)
        failed = await ended(assistant, made["taskId"])
        assert (failed["status"], "result" in failed) == ("failed", False)
        assert failed["error"] == {"code": -32603, "message": "it is not what it should be"}


async def test_any_other_failure_is_the_result_of_a_completed_task(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        made = await assistant.call("stumbled_task", tasks=True)
        task = await ended(assistant, made["taskId"])
        assert (task["status"], task["result"]["isError"], "error" in task) == ("completed", True, False)


async def test_what_somebody_may_not_see_is_what_there_is_not(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        made = await assistant.call("talk", tasks=True)
        blind = await assistant.other("workflow:run")
        stranger = await assistant.other(tenant="elsewhere")
        told: set[tuple[int, str, str]] = set()
        for who, task_id in (
            (assistant, "r_nothing"),
            (assistant, "?"),
            (blind, made["taskId"]),
            (stranger, made["taskId"]),
        ):
            for attempt in (who.task(task_id), who.update(task_id, {"who": accept(name="X")}), who.cancel(task_id)):
                with pytest.raises(ProtocolFault) as fault:
                    await attempt
                told.add((fault.value.code, fault.value.message, str(fault.value.data)))
        assert told == {(-32602, "Unknown task", "None")}
        assert (await assistant.task(made["taskId"]))["status"] == "input_required"


async def test_an_answer_is_acknowledged_once_and_for_all(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        made = await assistant.call("talk", tasks=True)
        for name in ("Ada", "Grace"):
            acknowledged = await assistant.update(made["taskId"], {"who": accept(name=name), "unknown": accept(x=1)})
            assert acknowledged == {"resultType": "complete"}
        task = await ended(assistant, made["taskId"])
        assert task["result"]["structuredContent"]["output"] == "Ada"
        assert await assistant.cancel(made["taskId"]) == {"resultType": "complete"}
        assert (await assistant.task(made["taskId"]))["status"] == "completed"


async def test_who_may_not_look_after_a_task_gets_none(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        runner = await assistant.other("workflow:run")
        assert (await runner.call("quick", tasks=True))["resultType"] == "complete"
        with pytest.raises(ProtocolFault):
            await runner.call("always", tasks=True)


async def test_who_may_look_but_not_answer_is_not_asked(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        made = await assistant.call("talk", tasks=True)
        watcher = await assistant.other("execution:read")
        seen = await watcher.task(made["taskId"])
        assert (seen["status"], seen["inputRequests"]) == ("input_required", {})
        assert seen["statusMessage"].startswith("waiting_input: Who are you? Only a person can answer this")
        refused = await assistant.caller.refusal("execution.answer", execution_id=made["taskId"], answer={"name": 7})
        assert refused.code == "ANSWER_INVALID"
        with pytest.raises(Denied):
            await watcher.update(made["taskId"], {"who": accept(name="X")})
