"""Executors with libraries of their own: loaded when wanted, missed clearly, and never paid for by others."""

import json
import subprocess
import sys

import pytest

from penstock.app.executors.extras import EXTRA_EXECUTORS, load_executor
from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.extras import install_hint
from tests.waiting import SECONDS_MAX

CLASSES = {"a2a": "A2aClients", "llm": "PydanticProvider"}


@pytest.mark.parametrize("name", sorted(EXTRA_EXECUTORS))
def test_an_executor_is_loaded_by_name(name: str) -> None:
    assert hasattr(load_executor(name), CLASSES[name])


@pytest.mark.parametrize("name", sorted(EXTRA_EXECUTORS))
def test_a_missing_library_is_answered_with_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = EXTRA_EXECUTORS[name]
    for module in [key for key in sys.modules if key.startswith("penstock.runtime.executors")]:
        monkeypatch.delitem(sys.modules, module)
    for module in [key for key in sys.modules if key.partition(".")[0] == wanted.libraries[0]]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, wanted.libraries[0], None)
    with pytest.raises(Unavailable) as caught:
        load_executor(name)
    assert caught.value.code == "EXTRA_NOT_INSTALLED"
    assert caught.value.hint == install_hint(wanted.extra)


def test_an_unknown_executor_is_named_with_the_known_ones() -> None:
    with pytest.raises(Rejected) as caught:
        load_executor("telepathy")
    assert caught.value.hint == "use one of a2a, llm"


def test_importing_the_product_imports_none_of_these_libraries() -> None:
    program = (
        "import json, sys, penstock, penstock.cli.main, penstock.app.executors.extras, "
        "penstock.runtime.executors.agents.executor, penstock.runtime.executors.llm.executor, "
        "penstock.runtime.executors.llm.mock, penstock.runtime.executors.mcp.config; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
    )
    loaded = {module.partition(".")[0] for module in json.loads(ran.stdout)}
    assert not loaded & {"a2a", "anthropic", "google", "httpx", "mcp", "mcp_types", "openai", "pydantic_ai"}
