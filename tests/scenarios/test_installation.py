"""The first minutes with an installed Penstock: nothing but the wheel and what it asks for."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.installed import install_checkout, install_wheel, offline_index
from tests.waiting import SECONDS_MAX


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(tmp_path_factory.mktemp("installed"))


def ran(program: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Neither the tests' environment nor the project's source may be found by accident.
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    command = [str(program), *words]
    return subprocess.run(
        command, check=False, cwd=folder, env=variables, capture_output=True, text=True, timeout=SECONDS_MAX
    )


def test_an_entry_names_the_program_of_an_environment_that_is_not_active(programs: Path, tmp_path: Path) -> None:
    printed = ran(programs / "penstock", tmp_path, "mcp", "install", "claude-desktop")
    assert printed.returncode == 0, printed.stderr
    entry = json.loads(printed.stdout)["mcpServers"]["penstock"]
    assert Path(entry["command"]) == programs / "penstock"
    assert os.access(entry["command"], os.X_OK)


def test_the_wheel_has_the_package_and_nothing_of_its_tests(programs: Path) -> None:
    (record,) = programs.parent.glob("lib/python*/site-packages/penstock_mcp-*.dist-info/RECORD")
    names = [Path(line.partition(",")[0]) for line in record.read_text(encoding="utf-8").splitlines()]
    inside = [name for name in names if ".dist-info" not in name.parts[0] and name.parts[0] != ".."]
    assert {name.parts[0] for name in inside} == {"penstock"}
    # The conformance harness is test equipment: it wires executors that answer whatever a driver tells them to.
    strangers = {"tests", "conformance", "harness"}
    found = [name for name in inside if strangers.intersection(name.with_suffix("").parts)]
    # A project that `penstock init` creates has test cases of its own.
    assert found == [Path("penstock/cli/project/templates/graph/tests/tasks.tests.yaml")]


def test_help_loads_none_of_the_large_libraries(programs: Path, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom penstock.cli.main import main\nsys.argv = ['penstock', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('mcp', 'pydantic', 'starlette', 'uvicorn') if name in sys.modules], file=sys.stderr)"
    )
    shown = ran(programs / "python", tmp_path, "-c", program)
    assert shown.stderr.strip() == "[]", shown.stderr


def readme_commands() -> list[tuple[list[str], str]]:
    """The commands that README begins with, each with what it says that they print."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    section = text.split("## Try it\n")[1].split("\n## ")[0]
    found = re.findall(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?", section, re.DOTALL)
    return [(commands.splitlines(), printed) for commands, printed in found]


def test_the_install_command_of_the_readme_works_as_printed(tmp_path: Path) -> None:
    programs = install_checkout(tmp_path, readme_commands()[0][0][0])
    shown = ran(programs / "penstock", tmp_path, "--version")
    assert (shown.returncode, shown.stdout.split()[0]) == (0, "penstock"), shown.stderr


def test_the_first_commands_of_the_readme_work_on_a_plain_installation(programs: Path, tmp_path: Path) -> None:
    blocks = readme_commands()
    install, init, *calls = blocks[0][0]
    assert (install, init) == ("pip install .", "penstock init shop && cd shop")
    assert ran(programs / "penstock", tmp_path, "init", "shop").returncode == 0
    for command in [*calls, *(command for commands, _ in blocks[1:] for command in commands)]:
        done = ran(programs / "penstock", tmp_path / "shop", *shlex.split(command)[1:])
        # Nobody is at a terminal, so the call that needs an approval waits.
        assert done.returncode == (3 if command in calls else 0), done.stderr
    assert list(tmp_path.rglob("claude_desktop_config.json"))


def test_the_commands_for_uv_work_as_printed(tmp_path: Path) -> None:
    text = Path("docs/tutorials/quick-start.md").read_text(encoding="utf-8")
    printed = re.findall(r"`((?:uv tool install|uvx) [^`]+)`", text)
    assert printed == ["uv tool install .", "uvx --from . penstock --help"]
    given = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(offline_index(tmp_path / "wheels")),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "programs"),
        "UV_PYTHON": sys.executable,
    }
    told = [
        subprocess.run(
            shlex.split(command), env=given, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        for command in printed
    ]
    assert [done.returncode for done in told] == [0, 0], told
    assert "Usage: penstock" in told[-1].stdout
    shown = ran(tmp_path / "programs" / "penstock", tmp_path, "--version")
    assert (shown.returncode, shown.stdout.split()[0]) == (0, "penstock"), shown.stderr
