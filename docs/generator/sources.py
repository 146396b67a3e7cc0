"""Every generated file of the source, by its path from the root of the project."""

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from docs.generator.client.resources import client_files
from docs.generator.operations import operations_file
from penstock.runtime.stores.sqlite.schema.current import STATEMENTS_FILE, statements_of
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION, migrate_by_steps
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions

__all__ = ["sources"]

ROOT = Path(__file__).parents[2]
_CLIENT = "src/penstock/client"
_FORMAT = f"src/penstock/runtime/stores/sqlite/schema/{STATEMENTS_FILE}"
_SECONDS_MAX = 60


def sources() -> Mapping[str, str]:
    """The content that every generated file should have, formatted with the project's settings."""
    made = {f"{_CLIENT}/{name}": text for name, text in client_files().items()}
    return {f"{_CLIENT}/operations.json": operations_file(), _FORMAT: _format_text(), **_formatted(made)}


def _format_text() -> str:
    """What an empty store file is made with, which is what all steps together make of one."""
    connection = sqlite3.connect(":memory:")
    register_functions(connection)
    migrate_by_steps(connection, 0)
    text = statements_of(connection, SCHEMA_VERSION)
    connection.close()
    return text


def _formatted(files: Mapping[str, str]) -> dict[str, str]:
    """The files, formatted by ruff."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        _ruff(folder, "check", "--fix", "--select", "I,RUF022")
        _ruff(folder, "format")
        return {path: (folder / path).read_text(encoding="utf-8") for path in files}


def _ruff(folder: Path, *arguments: str) -> None:
    ours = 'lint.isort.known-first-party=["penstock"]'
    settings = ["--config", str(ROOT / "pyproject.toml"), "--config", ours, "--quiet", "--no-cache"]
    command = [sys.executable, "-m", "ruff", *arguments, *settings, "."]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if finished.returncode:
        raise ValueError(f"ruff cannot format the generated files: {finished.stdout}{finished.stderr}")
