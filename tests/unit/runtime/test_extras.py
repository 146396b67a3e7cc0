"""What to run for the libraries of an extra: a command that works from anywhere."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from penstock.runtime import extras
from penstock.runtime.extras import DISTRIBUTION, install_hint

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_distribution_has_the_name_that_is_ours() -> None:
    assert PROJECT["name"] == DISTRIBUTION == "penstock-mcp"


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_a_hint_names_this_interpreter_and_every_library_of_the_extra(extra: str) -> None:
    hint = install_hint(extra)
    assert f'"{sys.executable}"' in hint
    for requirement in PROJECT["optional-dependencies"][extra]:
        assert f'"{requirement.partition(">")[0]}' in hint
    assert "penstock" not in hint.replace(sys.executable, "")


def test_an_environment_without_pip_is_served_by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert install_hint("otel").startswith(f'run `uv pip install --python "{sys.executable}" "opentelemetry')


def test_an_extra_that_this_installation_does_not_know_is_told_of_in_words() -> None:
    assert install_hint("nothing") == "install the extra `nothing`, in a checkout with `pip install '.[nothing]'`"
