"""Settings for every test: Hypothesis profiles, how often garbage is collected, and our pytest plugins.

The plugins are `deadline`, `durations`, `long_first` and `skips`. Fixtures are beside the tests that use
them; only the PostgreSQL server is for several packages.
"""

import gc
import logging
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.shared_postgres import postgres_address
from tests.deadline import deadline_of
from tests.durations import ModuleSeconds
from tests.long_first import LongFirst
from tests.skips import Skips

__all__ = ["postgres_address"]

_NEW_OBJECTS_MAX = 20_000

# Wall-clock limits per example say more about the machine than about the code, so there are none.
settings.register_profile("local", deadline=None, max_examples=25)
# In CI the same examples are drawn every time: a red build is then always about the change at hand.
settings.register_profile(
    "ci", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# HYPOTHESIS_PROFILE=thorough scripts/test tests/unit: as long as it takes.
settings.register_profile("thorough", deadline=None, max_examples=1_000)
# scripts/test --fast
settings.register_profile("fast", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests with garbage collection off: they stay to the end, so later collections can skip them too."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Tests make much and keep little: looking for garbage as often as usual takes a twentieth of their time.
        gc.set_threshold(_NEW_OBJECTS_MAX, 10, 10)


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Generator[None, None, None]:
    """Undo what a command did to our logger: later tests could not see their records otherwise."""
    logger = logging.getLogger("penstock")
    handlers, propagates, level = list(logger.handlers), logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = handlers, propagates
    logger.setLevel(level)


def pytest_configure(config: pytest.Config) -> None:
    """Register our plugins. With xdist, the controller counts, because it gets the reports of all workers."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts a job in the background, and the commands that tests start and interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(ModuleSeconds(config))
        config.pluginmanager.register(Skips())
    if (deadline := deadline_of(os.environ)) is not None:
        config.pluginmanager.register(deadline)
    elif hasattr(config, "workerinput"):
        config.pluginmanager.register(LongFirst(config.workerinput["workercount"]))
