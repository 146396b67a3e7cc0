"""MCP in a server: its choices, and what a server without the libraries says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.app.mcp_mounting import mcp_options
from penstock.app.settings import ServerSettings, Settings

WITHOUT_LIBRARIES = """
import sys
from importlib.abc import MetaPathFinder

class Nothing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ("mcp", "mcp_types") else found(name)
from penstock.app.mcp_mounting import load_mcp
from penstock.base.errors import PenstockError
import penstock.app.serving
try:
    load_mcp()
except PenstockError as error:
    print(error)
"""


def test_without_the_libraries_everything_else_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("NOT_CONFIGURED")
    assert "install penstock[mcp]" in done.stdout


def test_a_server_that_is_built_has_not_imported_the_sdk() -> None:
    program = "import sys, penstock.app.serving; print([name for name in ('mcp', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("host", "public_url", "allowed"),
    [
        ("127.0.0.1", None, {"127.0.0.1", "localhost", "::1"}),
        ("127.0.0.1", "https://flows.example/x", {"127.0.0.1", "localhost", "::1", "flows.example"}),
        ("0.0.0.0", None, None),
        ("0.0.0.0", "https://flows.example", {"127.0.0.1", "localhost", "::1", "0.0.0.0", "flows.example"}),
    ],
)
def test_the_names_that_a_server_answers_to(host: str, public_url: str | None, allowed: set[str] | None) -> None:
    options = mcp_options(Settings(server=ServerSettings(host=host, public_url=public_url)))
    assert (None if options.allowed_hosts is None else set(options.allowed_hosts)) == allowed
