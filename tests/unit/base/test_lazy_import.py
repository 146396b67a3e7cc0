"""Lazy imports: nothing is imported until an attribute is read."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.base.lazy_import import lazy_exports, lazy_import


def test_a_module_is_imported_when_something_in_it_is_used() -> None:
    module = "tests.unit.cli.views"
    sys.modules.pop(module, None)
    lazy = lazy_import(module)
    assert (module in sys.modules, repr(lazy)) == (False, "<lazy module 'tests.unit.cli.views'>")
    assert lazy.__getattr__("__name__") == module
    assert module in sys.modules


def test_an_attribute_that_the_module_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_that"):
        lazy_import("tests.unit.cli.views").nothing_like_that  # noqa: B018


def test_a_module_that_does_not_exist_is_an_error_when_it_is_used() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        lazy_import("penstock.no_such_module").anything  # noqa: B018


def test_a_public_name_of_a_package_is_imported_once_and_others_are_unknown() -> None:
    module = "tests.unit.cli.views"
    package = sys.modules[__name__]
    getattribute = lazy_exports(__name__, {"__doc__": module})
    assert getattribute("__doc__") == importlib.import_module(module).__doc__
    assert package.__doc__ == importlib.import_module(module).__doc__
    with pytest.raises(AttributeError, match=f"module '{__name__}' has no attribute 'nothing'"):
        getattribute("nothing")


_EVERYTHING_AT_ONCE = """
import random, re, sys, threading
from pathlib import Path
import penstock
from penstock.base.lazy_import import import_alone, lazy_import

source = Path(penstock.__file__).parent
texts = [path.read_text(encoding="utf-8") for path in source.rglob("*.py")]
names = {name for text in texts for name in re.findall(r'(?:lazy_import|import_alone)\\(\\s*"([\\w.]+)"', text)}
names |= {"penstock.mcp_surface.entry_points", "penstock.rest.prometheus", "mcp.client.session", "mcp.server"}
names |= {"penstock.runtime.executors.llm.pydantic_ai", "penstock.runtime.executors.agents.a2a"}
listed = sorted(names)
assert len(listed) > 50, listed
random.Random(7).shuffle(listed)
begin, failed = threading.Barrier(len(listed)), []

def use(number, name):
    begin.wait()
    try:
        import_alone(name) if number % 2 else lazy_import(name).__name__
    except BaseException as error:
        failed.append(f"{name}: {error!r}")

threads = [threading.Thread(target=use, args=item) for item in enumerate(listed)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\\n".join(failed))
"""


def test_threads_that_need_everything_at_once_get_it() -> None:
    """In a fresh process: every module that is imported while a server runs, each by a thread of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _EVERYTHING_AT_ONCE], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


def test_no_module_imports_while_the_program_runs_but_through_the_one_door() -> None:
    """`import_module` elsewhere is for what one thread reaches: the loop of a process, its steps, its commands."""
    source = Path(penstock.__file__).parent
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "import_module(" in path.read_text(encoding="utf-8")
    }
    of_servers = {name for name in users if not name.startswith("cli/")}
    assert of_servers == {"app/event_loop.py", "base/lazy_import.py", "runtime/steps/registry.py"}
