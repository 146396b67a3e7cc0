"""`penstock agent chat`: on a file and on a server, at a terminal and for programs."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.model_server import Asked, Breaks, Fails, ModelServer, Reply, Says, model_server
from tests.live.cli.processes import Shop
from tests.live.cli.terminals import at_terminal
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.agents import FIND, agent
from tests.waiting import SECONDS_MAX, wait_until
from tests.zygote import piped_command

ERASE = {**FIND, "name": "erase_order", "governance": {"risk": "high"}}
SUPPORT = agent({"tool": "workflow:find_order", "approve": True}, "workflow:erase_order", ask_user=True)
Place = tuple[Shop, tuple[str, ...], ModelServer]
ANSWER = "It was sent on Monday.\nIt arrives tomorrow."


def scripted(asked: Asked) -> Reply:
    last = asked.body["messages"][-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return Says("Then I cannot say." if "DECLINED" in text else ANSWER)
    if "Ask me" in text:
        return Says("", calls=(("ask_user", {"question": "Which order?"}),))
    if "Erase" in text:
        return Says("", calls=(("erase_order", {"id": "A-1"}),))
    if "Fail" in text:
        return Fails(500)
    if "slowly" in text:
        return Breaks(ANSWER, "waits")
    if "Where" in text:
        return Says("I look it up.", calls=(("find_order", {"id": "A-1"}),))
    said = sum(message["role"] == "assistant" for message in asked.body["messages"])
    return Says(f"Answer \x1b[31m{said + 1}.")


def settings_of(model: ModelServer, *paths: str) -> str:
    fast = {"provider": "openai-compatible", "model": "tiny-1", "base_url": model.url}
    return json.dumps({"models": {"fast": fast}, "workflows": {"paths": list(paths)}})


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server(otherwise=scripted) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "penstock.yaml").write_text(settings_of(model), encoding="utf-8")
    with serving(folder, "--config", "penstock.yaml") as running:
        for document in (FIND, ERASE, SUPPORT):
            running.call("POST", "workflows", {"document": document})
        yield running


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, shop: Shop, model: ModelServer) -> Place:
    """A folder, the words that name the agent and where it is, and its model."""
    model.left.clear()
    if request.param == "server":
        server: LiveServer = request.getfixturevalue("server")
        return replace(shop, variables={"PENSTOCK_API_KEY": server.key}), ("support", "--server", server.url), model
    shop.write("penstock.yaml", settings_of(model, "find_order.json", "erase_order.json"))
    shop.write("find_order.json", json.dumps(FIND))
    shop.write("erase_order.json", json.dumps(ERASE))
    shop.write("support.json", json.dumps(SUPPORT))
    return shop, ("support.json", "--db", "penstock.db"), model


def test_a_conversation_at_a_terminal(place: Place) -> None:
    shop, words, _ = place
    with at_terminal(shop, "agent", "chat", *words) as terminal:
        terminal.expect("support · /new starts a session")
        terminal.expect("\n> ")
        terminal.type("Where is it?\n")
        terminal.expect("I look it up.\r\n")
        terminal.expect('May the agent call workflow:find_order with {"id":"A-1"}?')
        terminal.expect("Approve this call [approve/decline]: ")
        terminal.type("y\n")
        terminal.expect('  workflow:find_order {"id": "A-1"} done\r\n')
        terminal.expect("It was sent on Monday.\r\nIt arrives tomorrow.\r\n> ")
        terminal.type("Where is it?\n")
        terminal.expect("Approve this call [approve/decline]: ")
        terminal.type("n\n")
        terminal.expect('  workflow:find_order {"id": "A-1"} TOOL_CALL_DECLINED: somebody declined')
        terminal.expect("Then I cannot say.\r\n> ")
        terminal.type("Hello?\n")
        assert "\x1b" not in terminal.expect("[31m5.\r\n> ")
        terminal.type("/new\n")
        terminal.expect("a new session begins with your next message")
        terminal.type("Ask me.\n")
        terminal.expect("Which order?")
        terminal.expect("Your answer: ")
        terminal.type("A-1\n")
        terminal.expect("It arrives tomorrow.\r\n> ")
        terminal.type("/exit\n")
        terminal.expect("to continue: penstock agent chat support --session s_")
        assert terminal.end() == 0


def test_ctrl_c_cancels_the_answer_and_keeps_the_session(place: Place) -> None:
    shop, words, model = place
    with at_terminal(shop, "agent", "chat", *words) as terminal:
        terminal.expect("\n> ")
        terminal.type("Say it slowly.\n")
        terminal.expect("It was sent on Monday.\r\nIt arrives tomorrow.")
        terminal.process.send_signal(signal.SIGINT)
        terminal.expect("cancelled\r\n> ")
        wait_until(model.left.is_set)
        terminal.type("Erase it.\n")
        terminal.expect("workflow:erase_order waits for approval: penstock approval approve ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.expect("cancelled\r\n> ")
        terminal.type("Hello?\n")
        terminal.expect("[31m1.\r\n> ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.expect("--session ")
        session = terminal.expect(" ").strip()
        assert terminal.end() == 130
    with at_terminal(shop, "agent", "chat", "support", *words[1:], "--session", session) as terminal:
        terminal.expect(f"support · session {session} · 3 messages so far")
        terminal.expect("> ")
        terminal.type("Hello?\n")
        terminal.expect("[31m2.\r\n> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    sent = [message["content"] for message in model.asked[-1].body["messages"]]
    assert [text for text in sent if text in ("Say it slowly.", "Hello?")] == ["Say it slowly.", "Hello?", "Hello?"]


def events_of(shop: Shop, words: tuple[str, ...], given: str, code: int) -> list[dict[str, Any]]:
    """What the command prints for a program that writes lines to it."""
    ended = subprocess.run(
        piped_command("agent", "chat", *words, "--json"),
        input=given,
        cwd=shop.folder,
        env=shop.environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_program_reads_events_and_answers_questions(place: Place) -> None:
    shop, words, _ = place
    events = events_of(shop, words, 'Where is it?\n{"approved": true}\nHello?\n', 0)
    names = [event["event"] for event in events]
    assert names.count("begun") == names.count("complete") == 2
    assert [event["prompt"] for event in events if event["event"] == "question"] == [
        'May the agent call workflow:find_order with {"id":"A-1"}?'
    ]
    assert "".join(event["text"] for event in events if event["event"] == "delta").startswith("I look it up.It was")
    assert next(event["output"]["text"] for event in events if event["event"] == "output") == ANSWER
    assert len({event["session_id"] for event in events if event["event"] == "begun"}) == 1


def test_the_end_of_input_leaves_a_question_open_and_the_session_takes_it_up_again(place: Place) -> None:
    shop, words, _ = place
    events = events_of(shop, words, "Ask me.\n", 3)
    session = next(event["session_id"] for event in events if event["event"] == "begun")
    again = events_of(shop, ("support", *words[1:], "--session", session), '{"answer": "A-1"}\n', 0)
    assert [event["output"]["text"] for event in again if event["event"] == "output"] == [ANSWER]


def test_a_conversation_whose_last_message_failed_ends_with_an_error(place: Place) -> None:
    shop, words, _ = place
    failed = events_of(shop, words, "Fail.\n", 1)
    assert [event["status"] for event in failed if event["event"] == "complete"] == ["failed"]
    events_of(shop, words, "Fail.\n/new\nHello?\n", 0)


def test_what_cannot_be_talked_to_is_told(place: Place) -> None:
    shop, words, _ = place
    events_of(shop, words, "", 0)
    told = events_of(shop, ("nobody", *words[1:]), "Hello?\n", 4)
    assert [event["code"] for event in told if event["event"] == "error"] == ["AGENT_NOT_FOUND"]
