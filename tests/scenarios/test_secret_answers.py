"""What a person answers in confidence reaches the step that needs it, and nobody else: no file, stream or view."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError, Unavailable
from penstock.definitions.validate import validate_document
from penstock.engine.effects import PerformActivity
from penstock.engine.replay import Replayed, replay
from penstock.engine.walk.questions import open_questions
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.secrets import AnswerSeals
from penstock.runtime.steps.registry import step
from tests.live.rest.servers import LiveServer, serving
from tests.unit.mcp_surface.answer_page.test_page import Browser, asked
from tests.unit.mcp_surface.assistants import assisted, exposed
from tests.waiting import SECONDS_MAX
from tests.zygote import run_command

SECRET = "corr3ct-h0rse-battery"
PIN = 739_150_482
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["user", "password"],
    "properties": {
        "user": {"type": "string"},
        "password": {"type": "string", "writeOnly": True, "minLength": 8, "pattern": "^[a-z0-9-]*$"},
        "pin": {"type": "integer", "format": "password"},
    },
}
WORKFLOW: dict[str, Any] = {
    "penstock": "v1",
    "name": "unlock",
    "nodes": [
        {"id": "ask", "type": "interrupt", "message": "Password?", "answer": SCHEMA},
        {"id": "hold", "type": "wait", "signal": "go"},
        {
            "id": "use",
            "type": "step",
            "handler": "use",
            "with": {
                "user": "${ .ask.user }",
                "password": "${ .ask.password }",
                "header": "Bearer ${ .ask.password }",
                "given": "${ .ask }",
                "looks": "${ .input.looks }",
            },
        },
        {"id": "done", "type": "end", "output": {"used": "${ .use }", "asked": "${ .ask }"}},
    ],
}
ANSWER: dict[str, Any] = {"user": "ada", "password": SECRET, "pin": PIN}
STEPS = """
import hashlib
from penstock import step

@step(name="use")
async def use(user: str, password: str, header: str, given: dict, looks: str | None = None) -> dict:
    print("using", password)
    told = {"user": user, "password": password, "header": header, "given": given, "looks": looks}
    return {name: hashlib.sha256(repr(value).encode()).hexdigest() for name, value in told.items()}
"""


def digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


USED = {
    "user": digest("ada"),
    "password": digest(SECRET),
    "header": digest(f"Bearer {SECRET}"),
    "given": digest(ANSWER),
    "looks": digest(None),
}
SHOWN = {"user": "ada", "password": "***", "pin": "***"}


def shows(text: str | bytes) -> bool:
    found = text.decode(errors="replace") if isinstance(text, bytes) else text
    return SECRET in found or str(PIN) in found


def showing(folder: Path) -> list[str]:
    """The files of a folder in which the secret stands: the database, its log, backups, whatever there is."""
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and shows(path.read_bytes())]


def ended(server: LiveServer, run: str) -> dict[str, Any]:
    """The run at its end; its stream tells when that is."""
    stream = server.request("GET", f"executions/{run}/stream", headers={"Accept": "text/event-stream"})
    assert not shows(stream.body)
    assert b"ResumeInterrupt" in stream.body or b"answered" in stream.body
    found: dict[str, Any] = server.call("GET", f"executions/{run}")
    return found


def test_an_answer_over_rest_is_kept_for_the_step_alone_and_over_a_crash(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    with serving(tmp_path, "--steps", "steps.py") as server:
        server.call("POST", "workflows", {"document": WORKFLOW})
        run = server.call("POST", "workflows/unlock/executions", {"input": {}})["execution_id"]
        short = server.request("POST", f"executions/{run}/answers", {"answer": {**ANSWER, "password": "UNFIT-w0rd"}})
        assert (short.status, b"UNFIT-w0rd" in short.body) == (422, False)
        body, headers = {"answer": ANSWER}, {"Idempotency-Key": "k-1"}
        server.call("POST", f"executions/{run}/answers", body, headers=headers)
        server.call("POST", f"executions/{run}/answers", body, headers=headers)
        assert showing(tmp_path) == []
        server.kill()
        server.start("--steps", "steps.py")
        server.call("POST", f"executions/{run}/signals", {"name": "go"})
        end = ended(server, run)
        assert end.get("output") == {"used": USED, "asked": SHOWN}, end.get("error")
        for path in (f"executions/{run}", f"executions/{run}/history?limit=200", "audit"):
            answer = server.request("GET", path)
            assert (path, answer.status, shows(answer.body)) == (path, 200, False)
        told = run_command(
            ["backup", "saved.db", "--db", "penstock.db"], folder=tmp_path, environment={}, timeout_seconds=SECONDS_MAX
        )
        assert (told.returncode, (tmp_path / "saved.db").exists()) == (0, True), told
        assert server.stop() == 0
        assert not shows(json.dumps(server.log))
    assert showing(tmp_path) == []


@pytest.mark.anyio
async def test_an_answer_on_the_page_is_in_no_file_history_or_resource(tmp_path: Path) -> None:
    question = {"id": "question", "type": "interrupt", "message": "Password?", "answer": SCHEMA}
    ask = exposed("secret", question, {"id": "done", "type": "end", "output": "${ .question }"})
    async with assisted(tmp_path, ask) as assistant:
        url, _ = await asked(assistant, "secret")
        browser = Browser(assistant)
        wrong = await browser.post(url, **{"field.user": "ada", "field.password": "UNFIT-w0rd"})
        assert (wrong.status_code, "UNFIT-w0rd" in wrong.text) == (422, False)
        done = await browser.post(url, **{"field.user": "ada", "field.password": SECRET, "field.pin": str(PIN)})
        assert (done.status_code, shows(done.text)) == (200, False)
        [execution] = await assistant.executions()
        run = execution["execution_id"]
        result = await assistant.caller.call("execution.wait", execution_id=run)
        assert result["output"] == SHOWN
        history = await assistant.caller.call("execution.history", execution_id=run)
        assert not shows(json.dumps(history))
        assert showing(tmp_path) == []


def test_an_answer_on_the_command_line_is_sealed_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "unlock.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    (tmp_path / "answer.json").write_text(json.dumps(ANSWER), encoding="utf-8")

    def command(*arguments: str, code: int = 0) -> None:
        told = run_command(arguments, folder=tmp_path, environment={}, timeout_seconds=SECONDS_MAX)
        assert told.returncode == code, told
        assert not shows(told.stdout + told.stderr)

    command("run", "unlock.json", "--db", "penstock.db", "--run-id", "r1", "--detach", code=3)
    command("runs", "answer", "r1", "@answer.json", "--db", "penstock.db")
    command("runs", "history", "r1", "--db", "penstock.db")
    (tmp_path / "answer.json").unlink()
    assert showing(tmp_path) == []

    async def finish() -> tuple[Any, Any]:
        async with Penstock.open(tmp_path / "penstock.db", steps=[use]) as penstock:
            run = penstock.run("r1")
            forked = await run.fork(at_seq=(await run.state()).seq)
            await run.signal("go")
            await forked.signal("go")
            outcome = await run.result(timeout_seconds=SECONDS_MAX), await forked.result(timeout_seconds=SECONDS_MAX)
            workflow = await penstock.host.workflow_named("unlock")
            assert workflow is not None
            records = await run.history()
            assert isinstance(replay(workflow, records), Replayed)
            return outcome

    first, forked = asyncio.run(finish())
    assert first == {"used": USED, "asked": SHOWN}
    assert forked == first
    assert showing(tmp_path) == []


@step(name="use")
async def use(user: str, password: str, header: str, given: dict[str, Any], looks: Any = None) -> dict[str, str]:
    """Tell what was given, so that nobody can read it."""
    told = {"user": user, "password": password, "header": header, "given": given, "looks": looks}
    return {name: digest(value) for name, value in told.items()}


async def until_asked(penstock: Penstock, run_id: str) -> None:
    run = penstock.run(run_id)
    while not open_questions(state := await run.state()):
        await penstock.host.wait(run_id, after_seq=state.seq, timeout_seconds=SECONDS_MAX)


def test_a_seal_in_an_input_is_text_and_a_seal_of_another_tenant_does_not_open(tmp_path: Path) -> None:
    async def work() -> None:
        async with Penstock.open(tmp_path / "penstock.db", steps=[use]) as penstock:
            await penstock.register(WORKFLOW)
            first = await penstock.start("unlock", {})
            await until_asked(penstock, first.id)
            await first.answer(ANSWER)
            answered = next(item for item in await first.history() if item.name == "ResumeInterrupt")
            seal = answered.payload["secrets"]["/password"]  # type: ignore[index, call-overload]
            looks = f"${{answer:{seal}}}"
            second = await penstock.start("unlock", {"looks": looks})
            await until_asked(penstock, second.id)
            await second.answer(ANSWER)
            await second.signal("go")
            outcome: Any = await second.result(timeout_seconds=SECONDS_MAX)
            assert outcome["used"]["looks"] == digest(looks)
            assert isinstance(penstock.host, EmbeddedHost)
            assert await penstock.host.seals.open("default", str(seal)) == SECRET
            with pytest.raises(Unavailable):
                await penstock.host.seals.open("acme", str(seal))

    asyncio.run(work())


class Asker:
    """An executor that asks for a secret, and then has it."""

    def __init__(self) -> None:
        self.calls: list[PerformActivity] = []

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        self.calls.append(call.activity)
        if call.activity.answer is None:
            return ActivityAsks("Password?", SCHEMA, resume={"step": 1})
        return ActivityDone({"length": len(call.activity.answer["password"])})  # type: ignore[index, call-overload, arg-type]


def test_an_activity_that_asks_gets_the_answer_and_the_history_does_not(tmp_path: Path) -> None:
    asker = Asker()
    document: dict[str, Any] = {
        "penstock": "v1",
        "name": "asking",
        "nodes": [
            {"id": "use", "type": "step", "handler": "use"},
            {"id": "done", "type": "end", "output": "${ .use }"},
        ],
    }

    async def work() -> Any:
        async with Penstock.open(tmp_path / "penstock.db", executors={"step": asker}) as penstock:
            await penstock.register(document)
            run = await penstock.start("asking", {})
            await until_asked(penstock, run.id)
            with pytest.raises(PenstockError) as refused:
                await run.answer({**ANSWER, "password": "UNFIT-w0rd"})
            assert "UNFIT-w0rd" not in str(refused.value)
            await run.answer(ANSWER)
            return await run.result(timeout_seconds=SECONDS_MAX)

    assert asyncio.run(work()) == {"length": len(SECRET)}
    assert asker.calls[-1].answer == ANSWER
    assert showing(tmp_path) == []


def test_a_server_with_another_secret_cannot_open_a_seal() -> None:
    async def work() -> None:
        async def secret() -> bytes:
            return b"a" * 32

        ours, theirs = AnswerSeals(secret), AnswerSeals()
        seal = await ours.seal("default", {"a": [SECRET]})
        assert await AnswerSeals(secret).open("default", seal) == {"a": [SECRET]}
        assert seal != await ours.seal("default", {"a": [SECRET]})
        assert len(await ours.seal("default", "x")) == len(await ours.seal("default", "x" * 40))
        for broken in (seal, seal[:-4], "", "!"):
            with pytest.raises(Unavailable):
                await theirs.open("default", broken)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("node", "allowed"),
    [
        ({"type": "step", "handler": "use", "with": {"a": "${ .ask.password }"}}, True),
        ({"type": "step", "handler": "use", "with": "${ .ask }"}, True),
        ({"type": "step", "handler": "use", "with": {"a": ["Bearer ${ .ask.password } ${ .ask.pin }"]}}, True),
        ({"type": "step", "handler": "use", "with": {"a": "${ .ask.user | ascii_upcase }"}}, True),
        ({"type": "step", "handler": "use", "with": {"a": "${ .ask.password | @base64 }"}}, False),
        ({"type": "step", "handler": "use", "with": {"a": "${ .ask | tojson }"}}, False),
        ({"type": "step", "handler": "use", "with": {"a": "${ .ask.user }:${ .ask.password }"}}, False),
        ({"type": "step", "handler": "use", "with": {"a": "${ .ask.password.inner }"}}, False),
        ({"type": "step", "handler": "use", "idempotency_key": "${ .ask.password }"}, False),
        ({"type": "set_state", "set": {"a": "${ .ask.password }"}}, False),
        ({"type": "set_state", "set": {"a": "${ .ask.user }"}}, True),
        ({"type": "subworkflow", "workflow": "other", "input": {"a": "${ .ask }"}}, False),
        ({"type": "end", "output": "${ .ask.password | length }"}, False),
        ({"type": "end", "output": "${ .ask.password }"}, True),
        ({"type": "interrupt", "message": "Is it ${ .ask.password }?", "answer": {}}, False),
    ],
)
def test_a_use_that_could_only_see_a_mask_is_refused(node: dict[str, Any], allowed: bool) -> None:
    [ask, *_] = WORKFLOW["nodes"]
    nodes = [ask, {"id": "use", **node}, {"id": "done", "type": "end", "output": "${ .ask }"}]
    document: dict[str, Any] = {"penstock": "v1", "name": "uses", "state": {"type": "object"}, "nodes": nodes}
    codes = [item.code for item in validate_document(document) if item.code.startswith("SECRET_ANSWER")]
    assert codes == ([] if allowed else ["SECRET_ANSWER_NOT_ALLOWED"])
