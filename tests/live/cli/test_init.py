"""`penstock init`: what it makes runs, from an empty folder to an approved refund over REST."""

import signal

from tests.live.cli.processes import Shop
from tests.live.cli.serving import serving

FILES = [".gitignore", "README.md", "penstock.yaml", "policies/starter.cedar", "steps.py", "workflows/refund.yaml"]


def test_a_new_project_is_valid_and_passes_its_own_tests(shop: Shop) -> None:
    made = shop.run("init", "shop")
    assert made.returncode == 0, made.stderr
    assert all(name in made.stdout for name in (*FILES, "cd shop", "penstock dev"))
    project = Shop(shop.folder / "shop")
    assert sorted(path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*.*")) == FILES
    assert project.json("validate", "workflows")["ok"]
    assert project.json("config", "validate")["ok"]
    cases = project.run("test")
    assert (cases.returncode, "5 passed" in cases.stdout) == (0, True), cases.stdout


def test_a_new_project_can_be_served_and_its_example_runs_over_rest(shop: Shop) -> None:
    made = shop.json("init")
    assert (made["ok"], made["folder"], made["files"]) == (True, ".", FILES)
    assert made["next"] == [
        "penstock mcp call refund_order order_id=A-7 amount=180",
        "penstock test",
        "penstock validate",
        "penstock dev",
    ]
    with serving(shop) as server:
        given = {"input": {"order_id": "A-1042", "amount": 180}, "execution_id": "refund-1042"}
        started = server.call("POST", "workflows/refund_order/executions", given)
        assert started.status == 202
        waiting = server.call("GET", "executions/refund-1042").body
        assert (waiting["status"], waiting["workflow_version"]) == ("waiting_approval", "1.0.0")
        assert server.call("POST", "executions/refund-1042/answers", {"answer": {"approve": True}}).status == 200
        with server.stream("executions/refund-1042/stream?events=complete") as stream:
            assert b"completed" in stream.read()
        output = server.call("GET", "executions/refund-1042").body["output"]
        assert output == {"refunded": 180.0, "reference": "RF-refund-1042/pay/1"}
        small = {"input": {"order_id": "A-1", "amount": 20}, "sync": True}
        assert server.call("POST", "workflows/refund_order/executions", small).body["output"]["refunded"] == 20
        server.stop(signal.SIGTERM)
    # Nothing that a repository must not hold is left unnamed.
    ignored = (shop.folder / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"penstock.db", "penstock.db-*", "penstock.db.secret"} <= set(ignored)


def test_files_that_are_there_are_not_touched_without_force(shop: Shop) -> None:
    shop.write("steps.py", "mine = 1\n")
    refused = shop.run("init")
    assert (refused.returncode, "PROJECT_EXISTS: . already has steps.py" in refused.stderr) == (2, True)
    assert "--force" in refused.stderr
    assert [path.name for path in shop.folder.iterdir()] == ["steps.py"]
    told = shop.json("init", code=2)
    assert (told["error"]["code"], told["error"]["details"]) == ("PROJECT_EXISTS", {"files": ["steps.py"]})
    assert shop.json("init", "--force")["ok"]
    assert "@step" in (shop.folder / "steps.py").read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_is_told(shop: Shop) -> None:
    shop.write("file", "")
    refused = shop.run("init", "file/project")
    assert (refused.returncode, "PROJECT_UNWRITABLE" in refused.stderr) == (2, True)
