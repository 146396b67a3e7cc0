"""`penstock run` and `penstock server worker` take models, secrets, steps and the database from a file."""

import json
import signal

from tests.live.cli.processes import GREET, STEPS, Shop, read_until
from tests.waiting import SECONDS_MAX

ASK = """\
penstock: v1
name: ask
nodes:
  - {id: plan, type: llm_call, model: scripted, prompt: "Plan a trip."}
  - {id: done, type: end, output: {plan: "${ .plan.text }"}}
"""


def test_a_model_from_the_settings_answers_a_run(shop: Shop) -> None:
    shop.write("ask.yaml", ASK)
    refused = shop.json("run", "ask.yaml", code=1)
    assert refused["error"]["code"] == "COMPOSITE_EXECUTOR_NOT_CONFIGURED"
    shop.write("penstock.yaml", "models: {scripted: {provider: mock, replies: {plan: Go north.}}}\n")
    assert shop.json("run", "ask.yaml")["output"] == {"plan": "Go north."}


def test_a_run_takes_database_and_steps_from_a_named_file(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    (shop.folder / "etc").mkdir()
    (shop.folder / "etc" / "shop.yaml").write_text(f"storage: {{path: runs.db}}\nsteps: {{modules: [{STEPS}]}}\n")
    ran = shop.json("run", "greet.yaml", "--input", '{"name": "x"}', "--config", "etc/shop.yaml")
    assert ran["status"] == "completed"
    assert (shop.folder / "etc" / "runs.db").exists()
    waiting = shop.run("run", "greet.yaml", "--input", '{"name": "x"}', "--config", "etc/shop.yaml", "--detach")
    assert "penstock server worker --config etc/shop.yaml --db etc/runs.db" in waiting.stdout


def test_mistaken_settings_keep_a_run_from_starting(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    shop.write("penstock.yaml", "steps: {module: [steps.py]}\n")
    refused = shop.run("run", "greet.yaml", "--input", '{"name": "x"}')
    assert refused.returncode == 2
    assert "penstock.yaml:1:9: error UNKNOWN_SETTING there is no setting `steps.module`" in refused.stderr
    assert "did you mean `modules`?" in refused.stderr
    problem = shop.json("run", "greet.yaml", "--input", '{"name": "x"}', code=2)
    assert problem["error"]["code"] == "INVALID_SETTINGS"
    assert not (shop.folder / "penstock.db").exists()


def test_a_worker_is_told_everything_by_its_settings(shop: Shop) -> None:
    (shop.folder / "flows").mkdir()
    (shop.folder / "flows" / "greet.yaml").write_text(GREET)
    shop.write(
        "penstock.yaml",
        f"storage: {{path: runs.db}}\nsteps: {{modules: [{STEPS}]}}\nworkflows: {{paths: ['flows/*.yaml']}}\n"
        "logging: {format: json, level: info}\n",
    )
    given = ("--input", '{"name": "x"}', "--run-id", "r1", "--detach")
    assert shop.run("run", "flows/greet.yaml", *given).returncode == 3
    with shop.start("server", "worker") as worker:
        started = json.loads(read_until(worker, "worker_started"))
        assert (started["database"], started["steps"]) == ("runs.db", [str(STEPS)])
        read_until(worker, "run_completed")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SECONDS_MAX)
    assert worker.returncode == 0
    assert shop.json("runs", "show", "r1")["status"] == "completed"
