"""`penstock eval --server`: cases are executions of a real server, each started once, and seen by its tenant only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.model_server import Asked, ModelServer, Reply, Says, model_server
from tests.live.cli.processes import Shop, read_until
from tests.live.cli.test_eval import CAPITALS, SETTINGS, prepared, told
from tests.live.rest.servers import LiveServer, serving
from tests.live.tenants import member
from tests.scenarios.agents import FIND
from tests.scenarios.office import ERASE
from tests.waiting import SECONDS_MAX, wait_until

CAPITAL: dict[str, Any] = {
    "penstock": "v1",
    "name": "capital",
    "version": "1.0.0",
    "agent": {"model": "fast", "instructions": "Name the capital.", "limits": {"turns": 3}},
}
CLEANER: dict[str, Any] = {
    "penstock": "v1",
    "name": "cleaner",
    "agent": {"model": "fast", "instructions": "Erase.", "tools": ["workflow:erase_order"], "limits": {"turns": 3}},
}
ASK: dict[str, Any] = {
    "penstock": "v1",
    "name": "ask",
    "nodes": [
        {"id": "who", "type": "interrupt", "message": "Who is there?", "answer": {"type": "string"}},
        {"id": "done", "type": "end", "output": {"text": "${ .who }"}},
    ],
}
# What is another one each time, or at each place.
_OWN = ("run", "judge_run", "milliseconds")


class Model:
    """What the model says. At `gate` it waits until the test goes on."""

    def __init__(self) -> None:
        self.gate: str | None = None
        self.opened = threading.Event()

    def reply(self, asked: Asked) -> Reply:
        said = json.dumps(asked.body["messages"])
        if "Erase" in said and asked.body["messages"][-1]["role"] == "user":
            return Says("", calls=(("erase_order", {"id": "A-1"}),))
        if self.gate is not None and self.gate in said:
            assert self.opened.wait(SECONDS_MAX)
        return told(asked)


@pytest.fixture(scope="module")
def script() -> Model:
    return Model()


@pytest.fixture(scope="module")
def model(script: Model) -> Iterator[ModelServer]:
    with model_server(otherwise=script.reply) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "penstock.yaml").write_text(SETTINGS % (model.url, model.url), encoding="utf-8")
    with serving(folder, "--config", "penstock.yaml") as running:
        for document in (CAPITAL, FIND, {**FIND, "name": "erase_order", "governance": {"risk": "high"}}, CLEANER):
            running.call("POST", "workflows", {"document": document})
        for document in (ERASE, ASK):
            running.call("POST", "workflows", {"document": document})
        yield running


def evaluated(shop: Shop, server: LiveServer, *arguments: str, code: int = 0, key: str | None = None) -> Any:
    """The report of an evaluation on the server, with a key."""
    own = replace(shop, variables={"PENSTOCK_API_KEY": key or server.key})
    finished = own.run("eval", "cases.jsonl", "--server", server.url, "--json", *arguments)
    assert finished.returncode == code, finished.stdout + finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def refused(shop: Shop, server: LiveServer, *arguments: str, key: str | None = None) -> str:
    """What a person reads of an evaluation that does not begin."""
    own = replace(shop, variables={"PENSTOCK_API_KEY": key or server.key})
    finished = own.run("eval", "cases.jsonl", "--server", server.url, *arguments)
    assert finished.returncode == 2, finished.stdout + finished.stderr
    return finished.stderr


def one_case(shop: Shop, given: dict[str, Any], **more: Any) -> None:
    shop.write("cases.jsonl", json.dumps({"id": "one", "input": given, **more}) + "\n")


def without_own(report: Any) -> Any:
    cases = [{name: value for name, value in case.items() if name not in _OWN} for case in report["cases"]]
    return {**report, "cases": cases}


def test_the_report_is_that_of_a_file_and_the_executions_are_found_by_their_label(
    shop: Shop, server: LiveServer, model: ModelServer
) -> None:
    prepared(shop, model, judge={"rubric": "A capital that everybody knows?"})
    options = ("--id", "same", "--judge", "judge", "--fail-under", "0.5")
    report = evaluated(shop, server, "--against", "capital", "--html", "page.html", *options)
    assert (report["passed"], report["total"], report["ok"]) == (2, 4, True)
    asked = len(model.asked)
    assert asked == 8
    found = server.call("GET", "executions?label=evaluation%3Dsame")["items"]
    assert {item["execution_id"] for item in found} == {case["run"] for case in report["cases"]}
    assert {item["labels"]["case"] for item in found} == set(CAPITALS)
    verdict = server.call("GET", f"executions/{report['cases'][0]['judge_run']}")
    assert verdict["output"]["score"] == 0.9
    judged = next(item for item in model.asked if "The rubric" in json.dumps(item.body))
    assert "<untrusted-" in judged.body["messages"][1]["content"]
    assert without_own(evaluated(shop, server, "--against", "capital", *options)) == without_own(report)
    assert len(model.asked) == asked  # neither a case nor a verdict is paid twice
    page = (shop.folder / "page.html").read_text(encoding="utf-8")
    assert "eval.same.c-France" in page
    shop.write("capital.json", json.dumps(CAPITAL))
    in_file = shop.run("eval", "cases.jsonl", "--against", "capital.json", "--db", "own.db", "--json", *options)
    assert without_own(json.loads(in_file.stdout.splitlines()[-1])) == without_own(report)


def test_an_evaluation_whose_client_was_killed_goes_on_from_what_the_server_has(
    shop: Shop, server: LiveServer, model: ModelServer, script: Model
) -> None:
    prepared(shop, model)
    script.gate = "Spain"
    before = len(model.asked)
    own = replace(shop, variables={"PENSTOCK_API_KEY": server.key})
    command = ("eval", "cases.jsonl", "--against", "capital", "--server", server.url, "--id", "killed")
    with own.start(*command, "--concurrency", "1") as process:
        read_until(process, "[2/4]")
        wait_until(lambda: len(model.asked) == before + 3)
        process.kill()
        process.wait()
    script.opened.set()
    report = evaluated(shop, server, "--against", "capital", "--id", "killed")
    assert (report["ok"], report["passed"]) == (True, 4)
    assert len(model.asked) == before + 4  # the server went on with the case that was under way
    found = server.call("GET", "executions?label=evaluation%3Dkilled")["items"]
    assert len(found) == 4
    one_case(shop, {"prompt": "The capital of Chad?"})
    shop.write("cases.jsonl", (shop.folder / "cases.jsonl").read_text().replace('"one"', '"France"'))
    assert "a case France with another input; choose another --id" in refused(
        shop, server, "--against", "capital", "--id", "killed"
    )


def test_two_versions_that_the_server_has_are_compared(shop: Shop, server: LiveServer) -> None:
    cases = [
        {"id": name, "input": {"country": name}, "expect": {"exact": {"text": city}}} for name, city in CAPITALS.items()
    ]
    shop.write("cases.jsonl", "".join(f"{json.dumps(case)}\n" for case in cases))
    for number, known in enumerate(({"France": "Paris"}, CAPITALS)):
        output = {"jq": f"{{text: {json.dumps(known)}[.input.country]}}"}
        nodes = [{"id": "done", "type": "end", "output": output}]
        document = {"penstock": "v1", "name": "table", "version": f"1.{number}.0", "nodes": nodes}
        shop.write(f"table-{number}.json", json.dumps(document))
        path = ("POST", "workflows") if number == 0 else ("PUT", "workflows/table")
        server.call(*path, {"document": document})
    report = evaluated(shop, server, "--against", "table", "--baseline", "1.0.0", "--id", "both")
    compared = report["baseline"]
    assert (compared["better"], compared["worse"], compared["same"]) == (3, 0, 1)
    assert (compared["target"]["version"], report["target"]["version"]) == ("1.0.0", "1.1.0")
    old = evaluated(shop, server, "--against", "table@1.0.0", "--baseline", "table-1.json", "--id", "back", code=1)
    assert (old["passed"], old["baseline"]["worse"]) == (1, 3)
    assert "this evaluation is one of table 1.1.0" in refused(shop, server, "--against", "table@1.0.0", "--id", "both")
    assert "no such version of table" in refused(shop, server, "--against", "table@3.0.0")
    assert "has no such version of table" in refused(shop, server, "--against", "table", "--baseline", "3.0.0")
    shop.write("table-1.json", (shop.folder / "table-1.json").read_text().replace("1.1.0", "1.2.0"))
    assert "does not have this version of table" in refused(shop, server, "--against", "table-1.json")


def test_a_case_that_waits_for_somebody_says_so_and_goes_on_once_it_is_decided(shop: Shop, server: LiveServer) -> None:
    robot = server.call("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})["secret"]
    one_case(shop, {"customer": "C-1"}, expect={"exact": {"erased": "C-1"}})
    waits = evaluated(shop, server, "--against", "erase_customer", "--id", "held", code=1, key=robot)["cases"][0]
    assert waits["status"] == "waiting_approval"
    assert f"the start waits for approval, draft {waits['run']}" in waits["checks"][0]["message"]
    server.call("POST", f"drafts/{waits['run']}/approve", {})
    assert evaluated(shop, server, "--against", "erase_customer", "--id", "held", key=robot)["passed"] == 1
    one_case(shop, {"prompt": "Erase A-1."})
    called = evaluated(shop, server, "--against", "cleaner", "--id", "tool", code=1)["cases"][0]
    assert called["status"] == "waiting_approval"
    assert "waits for approval, draft " in called["checks"][0]["message"]
    one_case(shop, {})
    asks = evaluated(shop, server, "--against", "ask", "--id", "asks", code=1)["cases"][0]
    assert (asks["status"], 'who asks "Who is there?"' in asks["checks"][0]["message"]) == ("waiting_input", True)
    one_case(shop, {}, answers={"who": "Ada"}, expect={"exact": {"text": "Ada"}})
    assert evaluated(shop, server, "--against", "ask", "--id", "asks")["passed"] == 1


def test_a_server_follows_no_script_and_spends_no_more_than_it_may(
    shop: Shop, server: LiveServer, model: ModelServer
) -> None:
    prepared(shop, model)
    dear = evaluated(
        shop, server, "--against", "capital", "--id", "dear", "--max-cost", "0.03", "--concurrency", "1", code=1
    )
    assert (dear["passed"], dear["not_run"], dear["cost"]) == (2, 2, "0.03")
    one_case(shop, {"prompt": "Hello"}, model=["Hi."])
    said = refused(shop, server, "--against", "capital")
    assert "cases.jsonl:1: `model` is a script, and a server performs capital in earnest" in said
    assert "--scripted: " in refused(shop, server, "--against", "capital", "--scripted")


def test_another_tenant_neither_evaluates_nor_sees_what_is_not_its_own(
    shop: Shop, server: LiveServer, model: ModelServer
) -> None:
    prepared(shop, model)
    evaluated(shop, server, "--against", "capital", "--id", "mine")
    other = member(server, "globex", "*")
    assert "has no such workflow for this key" in refused(shop, server, "--against", "capital", key=other.key)
    server.call("POST", "workflows", {"document": CAPITAL}, key=other.key)
    before = len(model.asked)
    theirs = evaluated(shop, server, "--against", "capital", "--id", "mine", key=other.key)
    assert (theirs["passed"], len(model.asked)) == (4, before + 4)  # what others paid for is not theirs
    reader = member(server, "globex", "workflow:read", "execution:read", name="reader")
    shop.write("cases.jsonl", '{"id": "new", "input": {"prompt": "The capital of Chad?"}}\n')
    assert "workflow:run" in refused(shop, server, "--against", "capital", "--id", "mine", key=reader.key)


HELPER: dict[str, Any] = {"id": "helper", "model": "fast", "instructions": "Name the capital.", "limits": {"turns": 3}}


def test_an_agent_of_the_registry_is_evaluated_as_it_is_and_a_change_in_the_middle_is_told(
    shop: Shop, server: LiveServer, model: ModelServer, script: Model
) -> None:
    prepared(shop, model, judge={"rubric": "A capital that everybody knows?"})
    made = server.call("POST", "agents", HELPER)
    options = ("--against", "helper", "--judge", "judge", "--fail-under", "0.5")
    report = evaluated(shop, server, *options, "--id", "entry")
    assert (report["passed"], report["total"], report["ok"]) == (2, 4, True)
    target = report["target"]
    assert (target["name"], target["hash"], target["source"]) == ("helper", made["etag"], "registry")
    asked = len(model.asked)
    assert without_own(evaluated(shop, server, *options, "--id", "entry")) == without_own(report)
    assert len(model.asked) == asked
    verdicts = server.call("GET", "executions?label=evaluation-verdict%3Dentry")["items"]
    assert {item["execution_id"] for item in verdicts} == {case["judge_run"] for case in report["cases"]} - {None}
    assert {item["labels"]["case"] for item in verdicts} <= set(CAPITALS)

    first = json.loads((shop.folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()[0])
    script.gate = json.dumps(first["input"]["prompt"])[1:-1]
    own = replace(shop, variables={"PENSTOCK_API_KEY": server.key})
    command = ("eval", "cases.jsonl", "--server", server.url, "--json", *options, "--id", "moved", "--concurrency", "1")
    asked = len(model.asked)
    script.opened.clear()
    with own.start(*command) as running:
        wait_until(lambda: len(model.asked) > asked)
        changed = {**HELPER, "instructions": "Name the largest city."}
        del changed["id"]
        server.call("PUT", "agents/helper", changed)
        script.gate = None
        script.opened.set()
        said, wrong = running.communicate(timeout=SECONDS_MAX)
    moved = json.loads(said.splitlines()[-1])
    assert "does not have the etag" in moved["stopped"], wrong
    assert [case["status"] for case in moved["cases"]] == ["completed", "not_run", "not_run", "not_run"]
    assert "the target has changed" in refused(shop, server, *options, "--id", "moved")
    one_case(shop, {"country": "France"})
    assert "{prompt, context}" in refused(shop, server, "--against", "helper", "--id", "odd")
    one_case(shop, {"prompt": "The capital of France?"})
    assert "keeps no other version" in refused(shop, server, "--against", "helper", "--baseline", "1.0.0")
