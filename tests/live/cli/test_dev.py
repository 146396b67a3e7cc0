"""`penstock dev`: what is saved is taken up at once, mistakes change nothing, and runs stay with their version."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from tests.live.cli.processes import Shop, read_until
from tests.live.cli.serving import Server
from tests.waiting import SECONDS_MAX

GATED_STEPS = """\
from pathlib import Path

from penstock import step

VERSION = "one"


@step
async def say() -> dict[str, str]:
    return {"version": VERSION}


@step
def wait(gate: str) -> dict[str, str]:
    with Path(gate).open(encoding="utf-8") as pipe:
        pipe.read()
    return {"version": VERSION}
"""
SAYING = """\
penstock: v1
name: saying
version: 1.0.0
nodes:
  - {id: ask, type: interrupt, message: Go on?, answer: {type: object}}
  - {id: say, type: step, handler: "steps:say"}
  - {id: done, type: end, output: {document: one, steps: "${ .say.version }"}}
"""
WAITING = """\
penstock: v1
name: waiting
nodes:
  - {id: wait, type: step, handler: "steps:wait", with: {gate: "${ .input.gate }"}}
  - {id: done, type: end, output: "${ .wait }"}
"""


@contextmanager
def developing(shop: Shop, *arguments: str) -> Iterator[Server]:
    """`penstock dev` in the folder of a shop, on a free port."""
    with shop.start("dev", "--port", "0", *arguments) as process:
        told = read_until(process, "watching files")
        address = re.search(r"http://127\.0\.0\.1:\d+", told)
        key = re.search(r"pen_\S+", told)
        assert address is not None, told
        yield Server(process, address[0], key[0] if key else None, {"text": told})


def save(path: Path, old: str, new: str) -> None:
    """Change a file as editors do: the new one takes the place of the old."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    draft = path.with_suffix(".draft")
    draft.write_text(text.replace(old, new), encoding="utf-8")
    os.replace(draft, path)


@pytest.fixture
def project(shop: Shop) -> Shop:
    (shop.folder / "flows").mkdir()
    shop.write("flows/saying.yaml", SAYING)
    shop.write("flows/waiting.yaml", WAITING)
    shop.write("flows/notes.yaml", "groceries: [milk]\n")
    shop.write("steps.py", GATED_STEPS)
    shop.write("penstock.yaml", "workflows: {paths: [flows]}\nsteps: {modules: [steps.py]}\n")
    return shop


def complete(server: Server, execution_id: str) -> object:
    assert server.call("POST", f"executions/{execution_id}/answers", {"answer": {}}).status == 200
    with server.stream(f"executions/{execution_id}/stream?events=complete") as stream:
        assert b"completed" in stream.read()
    return server.call("GET", f"executions/{execution_id}").body["output"]


def start(server: Server, execution_id: str) -> None:
    given = {"execution_id": execution_id}
    assert server.call("POST", "workflows/saying/executions", given).status == 202


def test_a_project_goes_from_init_to_an_answered_question(shop: Shop) -> None:
    assert shop.run("init").returncode == 0
    with developing(shop) as server:
        told = server.announced["text"]
        assert "workflow   refund_order 1.0.0" in told
        # What it proposes to try can be pasted.
        proposed = told.partition("in PENSTOCK_API_KEY:\n")[2].partition("watching files")[0]
        assert server.key is not None
        caller = Shop(shop.folder, {"PENSTOCK_API_KEY": server.key})
        tried = caller.run(*shlex.split(proposed.replace("\\\n", ""))[1:])
        assert tried.returncode == 0, tried.stderr
        told = read_until(server.process, "answer it:")
        assert "refund_order 1.0.0 started with" in told
        assert "waiting for an approval: Refund 180 for order A-1042?" in told
        # The line can be pasted.
        command = told.splitlines()[-1].partition("answer it: penstock ")[2].split()
        assert shop.run(*command, "approve=true").returncode == 0
        assert '"refunded": 180.0' in read_until(server.process, "completed with")
        output = server.stop(signal.SIGINT)
    assert (server.process.returncode, "stopping" in output) == (0, True)
    assert "Traceback" not in output


def test_a_changed_workflow_is_a_new_version_and_running_runs_stay_with_theirs(project: Shop) -> None:
    file = project.folder / "flows" / "saying.yaml"
    with developing(project) as server:
        start(server, "before")
        read_until(server.process, "answer it:")
        save(file, "document: one", "document: two")
        assert "1 run in progress stays with its version" in read_until(server.process, "↻ saying 1.0.0")
        start(server, "after")
        read_until(server.process, "answer it:")
        assert complete(server, "before") == {"document": "one", "steps": "one"}
        assert complete(server, "after") == {"document": "two", "steps": "one"}


def test_a_mistake_is_shown_where_it_is_and_the_old_version_stays(project: Shop) -> None:
    file = project.folder / "flows" / "saying.yaml"
    with developing(project) as server:
        save(file, "type: step", "type: stop")
        told = read_until(server.process, "the version before it stays")
        assert "flows/saying.yaml:6:" in told
        assert "hint" in told
        start(server, "e1")
        assert complete(server, "e1") == {"document": "one", "steps": "one"}
        save(file, "type: stop", "type: step")
        save(file, "document: one", "document: three")
        read_until(server.process, "↻ saying 1.0.0")


def test_new_and_deleted_files_are_noticed(project: Shop) -> None:
    with developing(project) as server:
        assert "notes" not in server.announced["text"]
        project.write("flows/more.yaml", SAYING.replace("name: saying", "name: more"))
        read_until(server.process, "↻ more 1.0.0 from flows/more.yaml")
        assert server.call("GET", "workflows/more").status == 200
        (project.folder / "flows" / "more.yaml").unlink()
        assert "more stays known" in read_until(server.process, "flows/more.yaml is gone")


def test_changed_steps_are_imported_anew_and_attempts_under_way_finish_with_the_old_code(project: Shop) -> None:
    gate, file = project.gate(), project.folder / "steps.py"
    with developing(project) as server:
        given = {"input": {"gate": str(gate.path)}, "execution_id": "slow"}
        assert server.call("POST", "workflows/waiting/executions", given).status == 202
        with gate.reached():
            save(file, 'VERSION = "one"', 'VERSION = "two"')
            read_until(server.process, "↻ steps from steps.py")
            start(server, "e1")
            assert complete(server, "e1") == {"document": "one", "steps": "two"}
        with server.stream("executions/slow/stream?events=complete") as stream:
            stream.read()
        assert server.call("GET", "executions/slow").body["output"] == {"version": "one"}


def test_broken_steps_change_nothing_and_missing_ones_are_named(project: Shop) -> None:
    file = project.folder / "steps.py"
    with developing(project) as server:
        save(file, "return {", "retrun {")
        told = read_until(server.process, "the steps before it stay")
        assert "STEPS_BROKEN: steps.py cannot be loaded (steps.py:10:" in told
        start(server, "e1")
        assert complete(server, "e1") == {"document": "one", "steps": "one"}
        save(file, "retrun {", "return {")
        save(file, "async def say", "async def tell")
        read_until(server.process, "saying calls steps:say (say), which no step module has")


def test_what_steps_import_from_the_project_is_watched_too(project: Shop) -> None:
    project.write("words.py", 'VERSION = "one"\n')
    save(project.folder / "steps.py", 'VERSION = "one"', "from words import VERSION")
    with developing(project) as server:
        save(project.folder / "words.py", '"one"', '"two"')
        read_until(server.process, "↻ steps from steps.py")
        start(server, "e1")
        assert complete(server, "e1") == {"document": "one", "steps": "two"}


def test_changed_settings_are_applied_or_need_a_restart_and_mistakes_are_shown(project: Shop) -> None:
    file = project.folder / "penstock.yaml"
    (project.folder / "more").mkdir()
    project.write("more/more.yaml", SAYING.replace("name: saying", "name: more"))
    with developing(project) as server:
        save(file, "workflows: {", "idempotency: {ttl: 2h}\nworkflows: {")
        assert "restart to apply" in read_until(server.process, "idempotency.ttl")
        save(file, "ttl: 2h", "tll: 2h")
        assert "penstock.yaml:1:15" in read_until(server.process, "the settings before it stay")
        save(file, "idempotency: {tll: 2h}\nworkflows: {paths: [flows]}", "workflows: {paths: [flows, more]}")
        read_until(server.process, "applied: workflows.paths")
        read_until(server.process, "↻ more 1.0.0 from more/more.yaml")


def test_it_starts_with_mistakes_in_workflows_but_not_with_steps_that_cannot_be_loaded(project: Shop) -> None:
    save(project.folder / "flows" / "saying.yaml", "type: step", "type: stop")
    with developing(project) as server:
        told = server.announced["text"]
        assert ("flows/saying.yaml:6:" in told, "workflow   waiting" in told) == (True, True)
        server.process.send_signal(signal.SIGTERM)
        server.process.communicate(timeout=SECONDS_MAX)
    project.write("steps.py", "import nothing_like_that\n")
    broken = project.run("dev", "--port", "0")
    assert (broken.returncode, "STEPS_BROKEN" in broken.stderr) == (2, True)


def test_without_anything_to_serve_it_says_what_to_do(shop: Shop) -> None:
    with developing(shop) as server:
        assert "penstock init" in server.announced["text"]
        assert isinstance(server.process, subprocess.Popen)


EACH = """\
penstock: v1
name: each
nodes:
  - id: all
    type: for_each
    items: "[7, 8]"
    as: item
    concurrency: 2
    nodes:
      - id: both
        type: parallel
        join: all
        branches:
          - {name: x, nodes: [{id: ask, type: interrupt, message: "Take ${ .item }?"}]}
          - {name: y, nodes: [{id: nap, type: wait, signal: go}]}
  - {id: done, type: end}
"""


def test_what_happens_inside_of_an_item_is_told_with_its_number(project: Shop) -> None:
    project.write("flows/each.yaml", EACH)
    with developing(project) as server:
        assert server.call("POST", "workflows/each/executions", {"execution_id": "e1"}).status == 202
        told = read_until(server.process, "waiting for a person: Take 8?")
        assert "ask  #1 waiting for a person: Take 7?" in told
        assert "ask  #2 waiting for a person: Take 8?" in told


def test_the_link_that_is_printed_signs_in_once_on_this_machine_and_is_not_logged(shop: Shop) -> None:
    with shop.start("dev", "--port", "0", "--no-browser", "--verbose") as process:
        told = read_until(process, "watching files")
        link = re.search(r"http://(127\.0\.0\.1:\d+)(/console/sign-in/link/(\S+))", told)
        assert link is not None
        place, path, token = link.groups()

        def ask(path: str, **headers: str) -> HTTPResponse:
            with closing(HTTPConnection(place, timeout=SECONDS_MAX)) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                answer.read()
                return answer

        assert ask(path, Host="evil.example").status == 403
        assert ask(path[:-1]).status == 403
        signed_in = ask(path)
        assert (signed_in.status, signed_in.headers["location"]) == (303, "/console")
        cookie = signed_in.headers["set-cookie"].partition(";")[0]
        assert ask("/console/workflows", Cookie=cookie).status == 200
        assert ask(path).status == 403
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
        assert token not in rest
        assert "/console/sign-in/link/{token}" in rest  # the request itself was logged
