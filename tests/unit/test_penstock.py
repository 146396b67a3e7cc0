"""What `import penstock` gives, and what it costs."""

import json
import subprocess
import sys

import pytest

import penstock

# Loaded, these cost tenths of a second; nothing of them is needed to know the version or a public name.
HEAVY = ("asyncio", "click", "jq", "jsonschema_rs", "msgspec", "sqlite3", "yaml")


def modules_after(statement: str) -> set[str]:
    program = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(finished.stdout))


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = modules_after("import penstock; penstock.__version__")
    # What fetches the other names when they are asked for, and nothing else of ours.
    assert sorted(name for name in loaded if name.startswith("penstock.")) == [
        "penstock.base",
        "penstock.base.lazy_import",
    ]
    assert [name for name in HEAVY if name in loaded] == []


def test_a_name_is_loaded_when_it_is_asked_for() -> None:
    loaded = modules_after("from penstock import step")
    assert "penstock.runtime.steps.registry" in loaded
    assert "penstock.app.penstock" not in loaded


@pytest.mark.parametrize("name", penstock.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(penstock, name) is getattr(penstock, name)
    assert name in dir(penstock)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        penstock.nonsense  # noqa: B018
