"""Observability that is not asked for costs nothing, and one that cannot be had says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.app.observability.opened import open_observability
from penstock.base.errors import Unavailable
from penstock.runtime.extras import install_hint


@pytest.mark.anyio
async def test_nothing_is_exported_unless_the_environment_asks_for_it() -> None:
    async with open_observability({}) as seen:
        assert (seen.signals, seen.tracing) == (frozenset(), None)


def test_a_gate_is_there_without_the_libraries() -> None:
    program = (
        "import sys, penstock.app.gate, penstock.app.penstock\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.anyio
async def test_without_the_libraries_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(Unavailable) as refused:
        async with open_observability({"OTEL_TRACES_EXPORTER": "otlp"}):
            raise AssertionError("it was opened")
    assert refused.value.code == "EXTRA_NOT_INSTALLED"
    assert install_hint("otel") in (refused.value.hint or "")
