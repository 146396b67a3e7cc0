"""The command line at a terminal: the live view, questions asked on the spot, and Ctrl-C."""

import os

from tests.live.cli.processes import APPROVE, GREET, STEPS, Shop
from tests.live.cli.terminals import at_terminal


def test_a_question_is_asked_at_the_terminal_until_the_answer_fits(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    command = ("run", "approve.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--run-id", "r1")
    with at_terminal(shop, *command) as terminal:
        terminal.expect("● approve 0.0.0  run r1  waiting for a person")
        terminal.expect('◌ ask       waiting for a person: "Greet you?"')
        terminal.expect("Approve it [approve/decline]: ")
        terminal.type("perhaps\n")
        terminal.expect("nothing is decided yet: type approve or decline; ? shows more")
        terminal.type("?\n")
        terminal.expect('"type": "boolean"')
        terminal.expect("Approve it [approve/decline]: ")
        terminal.type("y\n")
        terminal.expect("times (may be left out): ")
        terminal.type("0\n")
        terminal.expect("must be >= 1")
        terminal.type("2\n")
        terminal.expect("✓ ask       answered by")
        terminal.expect("✓ hello     step steps:greet")
        terminal.expect('✓ done      {"said": "Hello you"}')
        terminal.expect("completed in ")
        assert terminal.end() == 0
    assert shop.json("runs", "query", "r1", ".ask")["value"] == {"approve": True, "times": 2}


def test_the_end_of_input_leaves_the_question_open(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    with at_terminal(shop, "run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", "r1") as terminal:
        terminal.expect("Approve it [approve/decline]: ")
        terminal.type("\x04")
        terminal.expect("answer it   penstock runs answer r1 --db penstock.db approve=true")
        assert terminal.end() == 3
    with at_terminal(shop, "runs", "answer", "r1") as terminal:
        terminal.expect("Greet you?")
        terminal.expect("Approve it [approve/decline]: ")
        terminal.type("decline\n")
        terminal.expect("times (may be left out): ")
        terminal.type("\n")
        terminal.expect("declined ask; the run is now completed")
        assert terminal.end() == 0


def test_a_question_that_is_answered_elsewhere_is_no_longer_asked(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    with at_terminal(shop, "run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", "r1") as terminal:
        terminal.expect("Approve it [approve/decline]: ")
        assert shop.json("runs", "answer", "r1", "approve=false")["status"] == "completed"
        terminal.expect("This is no longer asked")
        terminal.expect('✓ refused   {"said": "nothing"}')
        assert terminal.end() == 0


def test_ctrl_c_at_a_question_says_how_to_go_on(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    with at_terminal(shop, "run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", "r1") as terminal:
        terminal.expect("Approve it [approve/decline]: ")
        os.killpg(terminal.process.pid, 2)
        terminal.expect("left · the run is safe in penstock.db")
        terminal.expect("go on here         penstock runs watch r1 --db penstock.db --perform")
        assert terminal.end() == 130


def test_a_run_is_drawn_in_place(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    command = ("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--run-id", "r1")
    with at_terminal(shop, *command) as terminal:
        terminal.expect("● greet 1.2.0  run r1")
        terminal.expect("completed in ")
        assert terminal.end() == 0
    last = terminal.seen[terminal.seen.rindex("● greet") :].replace("\r", "").splitlines()
    assert last[0].startswith("● greet 1.2.0  run r1  completed  00:0")
    assert last[1].split()[:4] == ["✓", "hello", "step", "steps:greet"]
    assert last[2].split(maxsplit=2) == ["✓", "done", '{"said": "Hello you"}']


def test_top_shows_what_lives_and_goes_where_the_keys_of_the_console_go(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    for run in ("r1", "r2"):
        given = ("--steps", str(STEPS), "--input", '{"name": "you"}')
        shop.run("run", "approve.yaml", *given, "--run-id", run, "--db", "penstock.db", "--detach")
    with at_terminal(shop, "top", "--db", "penstock.db", "--interval", "60") as terminal:
        terminal.expect("penstock runs top  home")
        terminal.expect("2 waiting input")
        terminal.expect("next: penstock runs answer r2 --db penstock.db")
        terminal.type("j")
        terminal.expect("next: penstock runs answer r1 --db penstock.db")
        terminal.type("gr")
        terminal.expect("penstock runs top  runs")
        terminal.type("?")
        terminal.expect("search: words, then Return")
        terminal.type("q")  # closes the keys, and not the view
        terminal.expect("penstock runs top  runs")
        terminal.type("/q r1\x7f\x7f\x7f\x7fr1\r")
        terminal.expect("/r1")
        terminal.expect("1 waiting input")
        terminal.type("/\x1b")
        terminal.expect("2 waiting input")
        terminal.type("q")
        assert terminal.end() == 0
    one = shop.json("runs", "top", "--db", "penstock.db")
    assert (one["queues"], one["counters"]) == ({"waiting_input": 2}, None)
    refused = shop.run("runs", "top", "--db", "penstock.db")
    assert (refused.returncode, "needs a terminal" in refused.stderr) == (2, True)
