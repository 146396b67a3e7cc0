"""The server with everything on has everything on, and the suites of governance run on it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from penstock.app.settings.model import Settings
from tests.fixtures.everything_on import NOT_ON, everything_on, neighborhood, switched_off
from tests.scenarios.conftest import GOVERNANCE, PLAIN_ONLY

_OPENS = re.compile(r"import .*\b(in_office|open_office)\b")
SCENARIOS = Path(__file__).parents[1] / "scenarios"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("everything")
    with neighborhood(folder / "around") as around:
        yield everything_on(folder, around)


def test_every_optional_setting_is_on_or_listed_with_a_reason(settings: Settings) -> None:
    missing = [path for path in switched_off(settings) if not is_listed(path)]
    assert not missing, f"switch on in tests/fixtures/everything_on.py, or list in NOT_ON: {missing}"


def test_nothing_is_listed_that_is_on_or_does_not_exist(settings: Settings) -> None:
    off = switched_off(settings)
    needless = [path for path in NOT_ON if not any(found == path or found.startswith(f"{path}.") for found in off)]
    assert not needless


def test_a_setting_that_is_not_on_is_found(settings: Settings) -> None:
    profile = msgspec.structs.replace(settings.server.agent_profile, enabled=False)
    server = msgspec.structs.replace(settings.server, agent_profile=profile)
    models = {name: msgspec.structs.replace(model, prices=None) for name, model in settings.models.items()}
    less = msgspec.structs.replace(settings, server=server, models=models)
    found = [path for path in switched_off(less) if not is_listed(path)]
    assert found == ["server.agent_profile.enabled", "models.prices"]


def test_the_suites_of_governance_and_the_tests_left_out_exist() -> None:
    assert not GOVERNANCE - {path.stem for path in SCENARIOS.glob("test_*.py")}
    for named in PLAIN_ONLY:
        module, _, name = named.partition("::")
        assert module in GOVERNANCE
        assert inspect.isfunction(getattr(import_module(f"tests.scenarios.{module}"), name))


def test_every_suite_that_opens_an_office_runs_with_everything_on() -> None:
    """An office is where held calls, policies and people meet: a new suite with one belongs to those of governance."""
    using = {path.stem for path in SCENARIOS.glob("test_*.py") if _OPENS.search(path.read_text(encoding="utf-8"))}
    assert not using - GOVERNANCE


def is_listed(path: str) -> bool:
    return any(path == known or path.startswith(f"{known}.") for known in NOT_ON)
