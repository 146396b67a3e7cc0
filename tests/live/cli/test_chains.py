"""Runs that continue as new ones, on the command line."""

from tests.live.cli.processes import Shop

COUNT = """\
penstock: v1
name: count
version: 1.0.0
input: {type: object, properties: {n: {type: integer, default: 1}}}
nodes:
  - {id: go, type: wait, signal: go}
  - id: choose
    type: switch
    cases: [{when: .input.n >= 3, next: done}]
    default: again
  - {id: again, type: continue_as_new, input: {n: "${ .input.n + 1 }"}}
  - {id: done, type: end, output: "${ .input.n }"}
"""
NAPPING = COUNT.replace("signal: go", "duration: 20ms")


def test_a_run_is_followed_through_all_runs_of_its_chain(shop: Shop) -> None:
    shop.write("count.yaml", NAPPING)
    finished = shop.run("run", "count.yaml", "--run-id", "order-7")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    assert [line for line in lines if line.startswith("●")] == [
        "● count 1.0.0  run order-7",
        "● count 1.0.0  run order-7~2",
        "● count 1.0.0  run order-7~3",
    ]
    assert any('continued as order-7~2 with {"n": 2}' in line for line in lines)
    assert lines[-1] == "  history  penstock runs history 'order-7~3' --db penstock.db"
    report = shop.json("run", "count.yaml", "--run-id", "order-7")
    assert (report["execution_id"], report["joined"], report["output"]) == ("order-7~3", True, 3)
    assert (report["continued_as"], report["should_continue"]) == (None, False)


def test_a_run_that_was_continued_says_as_what(shop: Shop) -> None:
    shop.write("count.yaml", NAPPING)
    assert shop.run("run", "count.yaml", "--run-id", "order-7", "--no-watch").returncode == 0
    shown = shop.json("runs", "show", "order-7")
    assert (shown["status"], shown["continued_as"]) == ("completed", "order-7~2")
    text = shop.run("runs", "show", "order-7").stdout
    assert "status      completed, continued as order-7~2, by now order-7~3\n" in text
    assert "status      completed, continued as order-7~3\n" in shop.run("runs", "show", "order-7~2").stdout
    listed = shop.json("runs", "list", "--label", "penstock.chain=order-7")["items"]
    assert [row["execution_id"] for row in listed] == ["order-7~3", "order-7~2"]
    assert "continued as order-7~2" in shop.run("runs", "history", "order-7").stdout


def test_signals_and_cancel_by_the_first_id_reach_the_last_run(shop: Shop) -> None:
    shop.write("count.yaml", COUNT)
    assert shop.run("run", "count.yaml", "--run-id", "order-7", "--detach").returncode == 3
    assert shop.json("runs", "signal", "order-7", "go")["execution_id"].startswith("order-7")
    # Nobody works here: who sends something to the next run starts it.
    assert shop.json("runs", "signal", "order-7", "go")["execution_id"].startswith("order-7")
    assert shop.json("runs", "show", "order-7~2")["continued_as"] == "order-7~3"
    assert shop.json("runs", "cancel", "order-7")["execution_id"] == "order-7"
    assert shop.json("runs", "show", "order-7~3")["status"] == "cancelled"
    watched = shop.run("runs", "watch", "order-7")
    assert watched.returncode == 1
    assert "cancelled" in watched.stdout


def test_an_id_like_that_of_a_later_run_is_refused(shop: Shop) -> None:
    shop.write("count.yaml", COUNT)
    finished = shop.run("run", "count.yaml", "--run-id", "order~2", "--detach")
    assert finished.returncode == 2
    assert "INVALID_ARGUMENTS: the arguments do not fit: /execution_id" in finished.stderr
