"""`penstock serve`: starts once it is sure of itself, and stops in order."""

import json
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.live.cli.processes import APPROVE, GATED, GREET, STEPS, Shop, read_until
from tests.live.cli.serving import Answer, read_event, serving
from tests.waiting import SECONDS_MAX

LOUD = """\
penstock: v1
name: loud
nodes:
  - id: ask
    type: interrupt
    message: '${ .ask.text // "Well?" }'
    answer: {type: object}
    next: {when: .ask.stop, then: done, else: ask}
  - {id: done, type: end}
"""


def flows(shop: Shop, *texts: str) -> tuple[str, ...]:
    """The arguments that make these workflows and the steps of the tests known."""
    (shop.folder / "flows").mkdir()
    for number, text in enumerate(texts):
        (shop.folder / "flows" / f"{number}.yaml").write_text(text, encoding="utf-8")
    return ("--workflows", "flows", "--steps", str(STEPS))


def test_the_first_start_makes_a_key_that_works_and_a_second_start_makes_none(shop: Shop) -> None:
    with serving(shop) as server:
        assert server.announced["started_ms"] > 0
        told = server.call("GET", "info").body
        assert (told["principal"].startswith("key:"), told["scopes"]) == (True, ["*"])
        assert told["details"]["started_ms"] == server.announced["started_ms"]
        key = server.key
        assert server.stop(signal.SIGTERM)
    assert server.process.returncode == 0
    with serving(shop, key=key) as server:
        assert server.announced["owner_key"] is None
        assert server.call("GET", "info").status == 200


def test_a_signal_stops_an_idle_server_at_once_and_a_restart_knows_everything(shop: Shop) -> None:
    with serving(shop, *flows(shop, GREET)) as server:
        started = server.call("POST", "workflows/greet/executions", {"input": {"name": "x"}, "sync": True})
        assert (started.status, started.body["output"]) == (200, {"said": "Hello x"})
        output = server.stop(signal.SIGINT)
        assert server.process.returncode == 0, output
        events = [json.loads(line)["event"] for line in output.splitlines()]
        assert events[-2:] == ["server_stopping", "server_stopped"]
    with serving(shop, key=server.key) as again:
        assert again.call("GET", f"executions/{started.body['execution_id']}").body["status"] == "completed"


def test_a_stopping_server_answers_what_is_under_way_and_takes_nothing_new(shop: Shop) -> None:
    gate = shop.gate()
    with serving(shop, *flows(shop, GATED)) as server:
        answers: list[Answer] = []
        given = {"input": {"gate": str(gate.path)}, "sync": True, "execution_id": "e1"}
        thread = threading.Thread(
            target=lambda: answers.append(server.call("POST", "workflows/gated/executions", given)), daemon=True
        )
        thread.start()
        with gate.reached():
            server.process.send_signal(signal.SIGTERM)
            read_until(server.process, "server_stopping")
            # The call waits for a run that waits for us: it is told where to look later.
            thread.join(SECONDS_MAX)
            assert [answer.status for answer in answers] == [202]
            assert answers[0].body["execution_id"] == "e1"
            refused = socket.socket()
            assert refused.connect_ex(("127.0.0.1", int(server.address.rpartition(":")[2]))) != 0
            refused.close()
        output, _ = server.process.communicate(timeout=SECONDS_MAX)
    assert server.process.returncode == 0, output
    # The step could finish; only what comes after it was left.
    assert gate.ledger() == ["e1/work/1 1"]
    assert json.loads(output.splitlines()[-1])["activities_left_for_the_next_start"] == 0


def test_streams_end_when_the_server_stops_and_go_on_after_the_restart(shop: Shop) -> None:
    with serving(shop, *flows(shop, APPROVE)) as server:
        given = {"input": {"name": "x"}, "execution_id": "e1"}
        assert server.call("POST", "workflows/approve/executions", given).status == 202
        with server.stream("executions/e1/stream?events=status,complete") as stream:
            while read_event(stream, "status")["status"] != "waiting_input":
                pass
            output = server.stop(signal.SIGTERM)
            # It ended as a response should, so that its reader connects again.
            rest = stream.read().decode()
            assert "event: complete" not in rest
        assert server.process.returncode == 0, output
        assert json.loads(output.splitlines()[-1])["requests_cut_off"] == 0
    with (
        serving(shop, "--workflows", "flows", "--steps", str(STEPS), key=server.key) as again,
        again.stream("executions/e1/stream?events=complete") as stream,
    ):
        assert again.call("POST", "executions/e1/answers", {"answer": {"approve": True}}).status == 200
        assert read_event(stream, "complete")["status"] == "completed"


def test_a_reader_that_takes_nothing_does_not_hold_up_the_stop(shop: Shop) -> None:
    # Longer than the test waits: only a stop that waits for nobody comes in time.
    shop.write("penstock.yaml", "server: {drain_seconds: 600}\n")
    with serving(shop, *flows(shop, LOUD)) as server:
        assert server.call("POST", "workflows/loud/executions", {"execution_id": "e1"}).status == 202
        with server.stream("executions/e1/stream", receive_bytes=4_096) as stream:
            read_event(stream, "status")
            # Answers come back as questions, in the stream: soon the socket is full.
            for _ in range(12):
                answer = {"answer": {"text": "x" * 500_000}}
                assert server.call("POST", "executions/e1/answers", answer).status == 200
            output = server.stop(signal.SIGTERM)
    assert server.process.returncode == 0, output


def test_a_second_signal_ends_the_process_at_once(shop: Shop) -> None:
    gate = shop.gate()
    with serving(shop, *flows(shop, GATED)) as server:
        given = {"input": {"gate": str(gate.path)}, "execution_id": "e1"}
        assert server.call("POST", "workflows/gated/executions", given).status == 202
        with gate.reached():
            server.process.send_signal(signal.SIGINT)
            read_until(server.process, "server_stopping")
            output = server.stop(signal.SIGINT)
        assert server.process.returncode == 128 + signal.SIGINT
        assert "stopped at once" in output


def test_the_service_manager_is_told(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(SECONDS_MAX)
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        with serving(shop) as server:
            assert manager.recv(100) == b"READY=1"
            server.stop(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"


def test_a_second_server_on_the_same_port_fails_before_it_touches_the_store(shop: Shop) -> None:
    with serving(shop) as server:
        port = server.address.rpartition(":")[2]
        refused = shop.run("serve", "--port", port, "--db", "other.db")
        assert refused.returncode == 2
        assert f"ADDRESS_UNAVAILABLE: cannot listen on 127.0.0.1:{port}" in refused.stderr
        assert "--port" in refused.stderr
        told = shop.json("serve", "--port", port, "--db", "other.db", code=2)
        assert told["error"]["code"] == "ADDRESS_UNAVAILABLE"
    assert not list(shop.folder.glob("other.db*"))


def test_mistakes_are_told_before_the_store_is_touched(shop: Shop) -> None:
    shop.write("penstock.yaml", "server:\n  prot: 1\n")
    settings = shop.run("serve")
    assert (settings.returncode, "penstock.yaml:2:3" in settings.stderr) == (2, True)
    shop.write("penstock.yaml", "server:\n  port: 0\n")
    workflow = shop.run("serve", "--workflows", "nowhere.yaml")
    assert (workflow.returncode, "nowhere.yaml: No such file" in workflow.stderr) == (2, True)
    steps = shop.run("serve", "--steps", "nowhere.py")
    assert (steps.returncode, "STEPS_NOT_FOUND" in steps.stderr) == (2, True)
    assert not list(shop.folder.glob("penstock.db*"))


def test_an_address_that_others_can_reach_gets_no_key_by_itself(shop: Shop) -> None:
    with shop.start("serve", "--host", "0.0.0.0", "--port", "0") as process:
        told = read_until(process, "penstock key create")
        assert "pen_" not in told
        assert "make one on this machine" in told
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
