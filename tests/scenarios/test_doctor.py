"""`penstock server doctor`: one command that sees the whole installation, and names what is wrong and what to do."""

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.cli.processes import GREET, STEPS, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    (tmp_path / "flows").mkdir()
    made.write("steps.py", STEPS.read_text(encoding="utf-8"))
    made.write("flows/greet.yaml", GREET)
    made.write("penstock.yaml", settings())
    return made


def settings(port: int = 0, more: str = "") -> str:
    return f"workflows: {{paths: [flows]}}\nsteps: {{modules: [steps.py]}}\nserver: {{port: {port}}}\n{more}"


def examined(shop: Shop, *, ok: bool) -> dict[str, list[dict[str, Any]]]:
    """What was found, by name; the exit code says the same."""
    ran = shop.run("server", "doctor", "--json")
    told = json.loads(ran.stdout)
    assert (told["ok"], ran.returncode) == (ok, 0 if ok else 1), told
    found: dict[str, list[dict[str, Any]]] = {}
    for check in told["checks"]:
        found.setdefault(check["name"], []).append(check)
    return found


def failed(found: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    return {name: check["message"] for name, checks in found.items() for check in checks if check["status"] == "fail"}


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_fresh_project_is_well_and_looking_at_it_makes_nothing(shop: Shop) -> None:
    before = sorted(path.name for path in shop.folder.iterdir())
    found = examined(shop, ok=True)
    expected = {"settings", "store", "secret", "workflows", "steps", "models", "port", "clock", "disk", "clients"}
    assert expected <= set(found)
    assert "greet" in found["workflows"][0]["message"]
    assert "steps:greet" in found["steps"][0]["message"]
    assert sorted(path.name for path in shop.folder.iterdir() if path.name != "__pycache__") == before


def test_everything_that_is_wrong_is_found_at_once(shop: Shop) -> None:
    assert shop.run("key", "create", "--name", "owner", "--scopes", '["*"]').returncode == 0
    (shop.folder / "penstock.db").chmod(0o644)
    (shop.folder / "penstock.db.secret").write_text("00" * 32, encoding="ascii")
    shop.write("flows/bad.yaml", GREET.replace("type: end", "type: ned"))
    shop.write("flows/lost.yaml", GREET.replace("name: greet", "name: lost").replace("steps:greet", "steps:great"))
    with taken_port() as port, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        more = (
            f'mcp_servers:\n  gone: {{url: "http://127.0.0.1:{unused.getsockname()[1]}/mcp"}}\n'
            "  npx: {command: npx-none}\n"
            "mcp_allow_commands: [npx-none]\nsecrets: {PAY: {env: NO_SUCH_VARIABLE}}\n"
        )
        shop.write("penstock.yaml", settings(port, more))
        found = examined(shop, ok=False)
    problems = failed(found)
    assert set(problems) == {"secret", "workflows", "secrets", "servers", "port"}
    assert "did not seal" in problems["secret"]
    assert problems["workflows"].startswith("flows/bad.yaml:7:")
    assert "NO_SUCH_VARIABLE" in problems["secrets"]
    assert {check["message"].partition(":")[0] for check in found["servers"]} == {"gone", "npx"}
    assert any("UNKNOWN_HANDLER" in check["message"] for check in found["workflows"] if check["status"] == "warn")
    assert found["access"][0]["what_to_do"] == "chmod 600 penstock.db"


def test_mistaken_settings_broken_steps_and_a_damaged_file_are_told(shop: Shop) -> None:
    shop.write("steps.py", "import nothing_like_that\n")
    shop.write("penstock.db", "not a database at all, whatever its name says" * 100)
    problems = failed(examined(shop, ok=False))
    assert set(problems) == {"steps", "store"}
    shop.write("penstock.yaml", "server: {prot: 1}\n")
    assert failed(examined(shop, ok=False))["settings"].startswith("penstock.yaml:1:")


def test_a_clock_before_the_newest_run_is_doubted(shop: Shop) -> None:
    assert shop.run("run", "flows/greet.yaml", "--input", '{"name": "you"}').returncode == 0
    with sqlite3.connect(shop.folder / "penstock.db") as connection:
        connection.execute("UPDATE runs SET created_at = created_at + 86400000")
    connection.close()
    assert examined(shop, ok=True)["clock"][0]["status"] == "warn"
