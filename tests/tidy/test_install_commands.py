"""Install commands that are printed anywhere work as printed: none installs what is not ours from the package index."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# In Markdown, sources, templates and scripts: a command that installs or runs something called penstock.
COMMAND = re.compile(
    r"(?:pip3?|pipx|uv pip|uv tool|uv|poetry|rye|pdm)\s+(?:install|add|run)\s[^\n`]*?(?=\",|[\n`]|$)"
    r"|(?:uvx|pipx run)\s[^\n`]*?(?=\",|[\n`]|$)"
    r"|\binstall(?:s|ed)? [`'\"]?penstock(?:-mcp)?\[[^\n`]*"
)
OURS = re.compile(r"(?<![\w./-])penstock(?:-mcp)?(?:\[[\w,]+\])?(?:[=<>~!]=?[\w.]+)?(?=['\"`\s).,;]|$)")
FROM_CHECKOUT = re.compile(r"--from \.(?:\[[\w,]+\])? penstock\b")


def printed_commands(text: str) -> list[str]:
    """The commands of a text that install or run a package."""
    return [found[0] for found in COMMAND.finditer(text)]


def takes_it_from_the_index(command: str) -> bool:
    """Whether a command asks the package index for a distribution with our name."""
    return OURS.search(FROM_CHECKOUT.sub("", command)) is not None


def tracked_texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    kept = {".md", ".py", ".toml", ".yaml", ".yml", ".json", ".sh", ".html", ".txt", ".ts", ".mjs", ""}
    names = [name for name in listed.split("\0") if name and Path(name).suffix in kept]
    names = [name for name in names if not name.startswith(("requirements/", "tests/golden/", "typings/"))]
    return {
        name: (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for name in names
        if name != "tests/tidy/test_install_commands.py" and (ROOT / name).is_file()
    }


@pytest.mark.parametrize(
    ("command", "is_wrong"),
    [
        ("pip install penstock", True),
        ("pip install 'penstock[otel]'", True),
        ("uv add penstock==1.0", True),
        ("uv tool install penstock", True),
        ("uvx penstock mcp", True),
        ("pipx run penstock", True),
        ("install penstock[llm]", True),
        ("pip install penstock-mcp", True),
        ("pip install .", False),
        ("pip install '.[otel]'", False),
        ("uv tool install .", False),
        ("uvx --from . penstock --help", False),
        ("uv pip install pydantic-ai-slim", False),
    ],
)
def test_the_search_finds_what_is_wrong_and_nothing_else(command: str, is_wrong: bool) -> None:
    found = printed_commands(f"Run `{command}` now.\n")
    assert any(map(takes_it_from_the_index, found)) is is_wrong


def test_no_printed_command_installs_somebody_elses_package() -> None:
    wrong = [
        f"{name}: {command}"
        for name, text in tracked_texts().items()
        for command in printed_commands(text)
        if takes_it_from_the_index(command)
    ]
    assert not wrong, "\n".join(wrong)
