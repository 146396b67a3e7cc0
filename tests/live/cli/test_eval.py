"""`penstock eval` in its own process, with a real model server: nothing is paid twice, bounds hold."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.model_server import Asked, ModelServer, Reply, Says, Stalls, model_server
from tests.live.cli.processes import Shop, read_until
from tests.live.mcp.browsers import browsing
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples"
SUPPORT = """\
penstock: v1
name: capital
version: 1.0.0
agent: {model: fast, instructions: "Name the capital.", limits: {turns: 3}}
"""
SETTINGS = """\
models:
  fast:
    provider: openai-compatible
    base_url: %s
    needs_key: false
    prices: {input_per_million: 1000, output_per_million: 1000}
  judge:
    provider: openai-compatible
    base_url: %s
    needs_key: false
    prices: {input_per_million: 1000, output_per_million: 1000}
"""
CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Chad": "N'Djamena"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        running.otherwise = told
        yield running


def told(asked: Asked) -> Reply:
    """What the model says: the capital, or a verdict on one."""
    said = json.dumps(asked.body["messages"])
    if "The rubric" in said:
        good = "Paris" in said or "Rome" in said
        return Says(json.dumps({"score": 0.9 if good else 0.1, "reason": "a known city" if good else "unknown to me"}))
    country = next(name for name in CAPITALS if name in said)
    return Says(f"{CAPITALS[country]}.")


def prepared(shop: Shop, server: ModelServer, **expect: Any) -> None:
    shop.write("penstock.yaml", SETTINGS % (server.url, server.url))
    shop.write("capital.yaml", SUPPORT)
    cases = [
        {
            "id": name,
            "input": {"prompt": f"The capital of {name}?"},
            "expect": expect or {"exact": {"text": f"{city}."}},
        }
        for name, city in CAPITALS.items()
    ]
    shop.write("cases.jsonl", "".join(f"{json.dumps(case)}\n" for case in cases))


def evaluated(shop: Shop, *arguments: str, code: int = 0) -> Any:
    """The report, which is the last line."""
    finished = shop.run("eval", "cases.jsonl", "--against", "capital.yaml", "--json", *arguments)
    assert finished.returncode == code, finished.stdout + finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def test_an_evaluation_that_was_killed_goes_on_and_no_case_is_paid_twice(shop: Shop, server: ModelServer) -> None:
    prepared(shop, server)
    server.script.extend([Says("Paris."), Says("Rome."), Stalls()])
    command = ("eval", "cases.jsonl", "--against", "capital.yaml", "--id", "first", "--concurrency", "1")
    with shop.start(*command) as process:
        read_until(process, "[2/4]")
        wait_until(lambda: len(server.asked) == 3)
        process.kill()
        process.wait()
    report = evaluated(shop, "--id", "first")
    assert (report["ok"], report["passed"], report["total"]) == (True, 4, 4)
    asked = ["".join(name for name in CAPITALS if name in json.dumps(item.body["messages"])) for item in server.asked]
    # Only the turn that was under way is asked again: nobody can know whether it was answered.
    assert asked[:3] == ["France", "Italy", "Spain"]
    assert sorted(asked[3:]) == ["Chad", "Spain"]  # they are asked at the same time
    again = evaluated(shop, "--id", "first")
    assert len(server.asked) == 5
    assert again == report


def test_an_evaluation_that_is_left_with_ctrl_c_says_how_to_go_on(shop: Shop, server: ModelServer) -> None:
    prepared(shop, server)
    server.script.extend([Says("Paris."), Stalls()])
    with shop.start(
        "eval", "cases.jsonl", "--against", "capital.yaml", "--id", "left", "--concurrency", "1"
    ) as process:
        read_until(process, "[1/4]")
        wait_until(lambda: len(server.asked) == 2)
        process.send_signal(signal.SIGINT)
        told_last = read_until(process, "To continue, repeat the command with --id")
        assert process.wait() == 130
    assert "--id left" in told_last
    assert evaluated(shop, "--id", "left")["passed"] == 4


def test_no_case_is_started_once_the_cost_is_spent(shop: Shop, server: ModelServer) -> None:
    prepared(shop, server)
    # A turn has 12 tokens in and 3 out, at a thousand dollars for a million.
    report = evaluated(shop, "--id", "dear", "--max-cost", "0.03", "--concurrency", "1", code=1)
    assert (report["passed"], report["not_run"], report["cost"]) == (2, 2, "0.03")
    assert report["stopped"] == "0.03 of 0.03 US dollars are spent"
    assert len(server.asked) == 2
    finished = evaluated(shop, "--id", "dear", "--max-cost", "1")
    assert (finished["passed"], finished["cost"], len(server.asked)) == (4, "0.06", 4)


def test_a_judge_is_a_run_and_its_verdict_is_not_paid_twice(shop: Shop, server: ModelServer) -> None:
    prepared(shop, server, judge={"rubric": "A capital that ${ everybody } knows?", "at_least": 0.5})
    finished = shop.run("eval", "cases.jsonl", "--against", "capital.yaml")
    assert finished.returncode == 2
    assert "--judge" in finished.stderr
    report = evaluated(shop, "--id", "judged", "--judge", "judge", "--fail-under", "0.5")
    verdicts = {case["id"]: case["checks"][-1] for case in report["cases"]}
    assert {name: check["passed"] for name, check in verdicts.items()} == {
        "France": True,
        "Italy": True,
        "Spain": False,
        "Chad": False,
    }
    assert verdicts["Chad"] == {"kind": "judge", "passed": False, "score": 0.1, "message": "0.1 of 1: unknown to me"}
    judged = [item.body["messages"] for item in server.asked if "The rubric" in json.dumps(item.body)]
    assert len(judged) == 4
    system, prompt = (message["content"] for message in judged[0])
    assert "A capital that ${ everybody } knows?" in system
    assert "<untrusted-" in prompt
    run = shop.json("runs", "show", report["cases"][0]["judge_run"], "--db", "penstock.evals/judged.db")
    assert run["output"]["score"] == 0.9
    assert evaluated(shop, "--id", "judged", "--judge", "judge", "--fail-under", "0.5") == report
    assert len(server.asked) == 8
    assert evaluated(shop, "--id", "judged", "--judge", "judge", code=1)["ok"] is False


def plain(shop: Shop, *known: str, version: str = "1.0.0", name: str = "capital.yaml") -> None:
    """A workflow without a model that knows some capitals, and the cases."""
    table = json.dumps({f"The capital of {country}?": f"{CAPITALS[country]}." for country in known})
    output = {"jq": f"{{text: ({table}[.input.prompt])}}"}
    schema = {"type": "object", "required": ["prompt"]}
    document = {"penstock": "v1", "name": "capital", "version": version, "input": schema}
    shop.write(name, json.dumps({**document, "nodes": [{"id": "done", "type": "end", "output": output}]}))
    cases = [
        {"id": country, "input": {"prompt": f"The capital of {country}?"}, "expect": {"exact": {"text": f"{city}."}}}
        for country, city in CAPITALS.items()
    ]
    shop.write("cases.jsonl", "".join(f"{json.dumps(case)}\n" for case in cases))


def test_two_versions_are_compared_and_the_evaluation_of_a_changed_one_is_another(shop: Shop) -> None:
    plain(shop, "France")
    first = evaluated(shop, "--id", "first", code=1)
    assert (first["passed"], first["failed"]) == (1, 3)
    plain(shop, "France", name="old.json")
    shop.json("run", "capital.yaml", "--input", '{"prompt": "The capital of France?"}')
    plain(shop, *CAPITALS, version="1.1.0")
    refused = shop.run("eval", "cases.jsonl", "--against", "capital.yaml", "--id", "first")
    assert refused.returncode == 2
    assert "the target has changed; choose another --id" in refused.stderr
    for number, baseline in enumerate(("first", "penstock.evals/first.json", "old.json", "1.0.0")):
        report = evaluated(shop, "--id", f"next-{number}", "--baseline", baseline)
        compared = report["baseline"]
        assert (compared["better"], compared["worse"], compared["same"]) == (3, 0, 1)
        assert (compared["target"]["version"], report["target"]["version"]) == ("1.0.0", "1.1.0")
    shown = shop.run("eval", "cases.jsonl", "--against", "capital.yaml", "--id", "next-0", "--baseline", "first")
    assert "  better Italy  0.00 -> 1.00" in shown.stdout
    assert "  3 better, 1 same; 25% -> 100% passed, score 0.25 -> 1.00" in shown.stdout
    unknown = shop.run("eval", "cases.jsonl", "--against", "capital.yaml", "--baseline", "3.0.0")
    assert unknown.returncode == 2
    assert "there is no such file, evaluation (in penstock.evals) or stored version of capital" in unknown.stderr


def test_bad_lines_are_reported_with_their_numbers_before_anything_is_run(shop: Shop) -> None:
    plain(shop, *CAPITALS)
    text = (shop.folder / "cases.jsonl").read_text()
    shop.write("cases.jsonl", f'{{"id": "x"\n{text}{{"id": "Chad", "input": {{}}}}\n')
    finished = shop.run("eval", "cases.jsonl", "--against", "capital.yaml", "--id", "bad")
    assert finished.returncode == 2
    assert "cases.jsonl:1: it is not JSON" in finished.stderr
    assert "cases.jsonl:6: the id 'Chad' is that of line 5 already" in finished.stderr
    assert not (shop.folder / "penstock.evals").exists()
    told_in_json = shop.json("eval", "cases.jsonl", "--against", "capital.yaml", code=2)
    assert [line["line"] for line in told_in_json["error"]["details"]["bad_lines"]] == [1, 6]
    report = evaluated(shop, "--id", "bad", "--skip-bad-lines", code=1)
    assert (report["passed"], report["ok"], len(report["bad_lines"])) == (4, False, 2)


def test_a_case_with_another_input_is_no_case_of_the_evaluation(shop: Shop) -> None:
    plain(shop, *CAPITALS)
    evaluated(shop, "--id", "first")
    shop.write("cases.jsonl", '{"id": "France", "input": {"prompt": "The capital of Spain?"}}\n')
    finished = shop.run("eval", "cases.jsonl", "--against", "capital.yaml", "--id", "first")
    assert finished.returncode == 2
    assert "a case France with another input; choose another --id" in finished.stderr


def test_an_input_that_does_not_fit_or_takes_too_long_fails_its_case_and_no_other(shop: Shop) -> None:
    plain(shop, *CAPITALS)
    with (shop.folder / "cases.jsonl").open("a") as file:
        file.write('{"id": "unfit", "input": {"question": 1}}\n')
        file.write('{"id": "meant", "input": {}, "expect": {"error": "INPUT_INVALID"}}\n')
    report = evaluated(shop, "--id", "mixed", code=1)
    outcomes = {case["id"]: (case["status"], case["passed"]) for case in report["cases"]}
    assert (outcomes["unfit"], outcomes["meant"]) == (("failed", False), ("failed", True))
    assert report["passed"] == 5
    waits = [{"id": "wait", "type": "wait", "signal": "never"}, {"id": "done", "type": "end"}]
    shop.write("slow.json", json.dumps({"penstock": "v1", "name": "slow", "nodes": waits}))
    shop.write("slow.jsonl", '{"input": {}, "expect": {"status": "cancelled"}}\n')
    finished = shop.run("eval", "slow.jsonl", "--against", "slow.json", "--timeout", "1s")
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_the_example_is_scripted_and_its_page_is_inert_in_a_real_browser(shop: Shop, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "support-agent.yaml", shop.folder / "support.yaml")
    text = (EXAMPLES / "support-cases.jsonl").read_text()
    hostile = "</pre><script>document.title='owned'</script><img src=x onerror=\\\"document.title='owned'\\\">"
    line = (
        '{"id": "<b onclick=1>hostile</b>", "input": {"prompt": "Hello"}, "expect": {"exact": 1}, "model": '
        f'[{{"answer": {{"reply": "{hostile}", "refunded": false}}}}]}}'
    )
    shop.write("cases.jsonl", f"{text}{line}\n")
    command = ("eval", "cases.jsonl", "--against", "support.yaml", "--scripted", "--id", "page", "--html", "page.html")
    finished = shop.run(*command, "--fail-under", "0.8")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "4 of 5 cases passed (80%)" in finished.stdout
    unscripted = shop.write("cases.jsonl", '{"input": {"prompt": "Hello"}}\n')
    refused = shop.run("eval", unscripted, "--against", "support.yaml", "--scripted")
    assert (refused.returncode, "cases.jsonl:1: it has no script" in refused.stderr) == (2, True)
    with browsing(tmp_path / "browser") as browser:
        browser.open((shop.folder / "page.html").as_uri())
        assert browser.evaluate("document.title") == "Evaluation page"
        assert browser.evaluate("document.querySelectorAll('script, img, a, b[onclick], link').length") == 0
        assert browser.evaluate("document.querySelectorAll('details').length") == 5
        assert browser.evaluate("document.querySelectorAll('details[open]').length") == 1
        assert browser.evaluate("getComputedStyle(document.querySelector('.figures')).display") == "flex"
        shown = browser.evaluate("document.querySelector('details[open] pre').textContent")
        assert "document.title='owned'" in shown
