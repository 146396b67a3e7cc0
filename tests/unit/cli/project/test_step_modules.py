"""Steps from files and modules that an operator names."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import Rejected
from penstock.cli.project.step_modules import StepModules, load_steps
from penstock.runtime.steps.registry import StepRegistry

STEPS = "from penstock import step\n\n@step\ndef hello() -> str:\n    return 'hello'\n\ndef helper(): ...\n"


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What is imported here is forgotten afterwards, and found from the folder of the test."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("shelf"):
            del sys.modules[name]


def names(*modules: str) -> list[str]:
    registry = StepRegistry()
    for function in load_steps(modules):
        registry.register(function)
    return sorted(registry.names())


def test_a_file_that_stands_alone_goes_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "shelf_steps.py").write_text(STEPS)
    assert names("shelf_steps.py") == ["shelf_steps:hello"]
    assert names(str(tmp_path / "shelf_steps.py")) == ["shelf_steps:hello"]


def test_a_file_in_a_package_goes_by_its_full_name(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "shelf_shop" / "money"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "payments.py").write_text(STEPS)
    assert names("deep/shelf_shop/money/payments.py") == ["shelf_shop.money.payments:hello"]


def test_a_module_is_found_from_the_folder_one_is_in(tmp_path: Path) -> None:
    (tmp_path / "shelf_pack").mkdir()
    (tmp_path / "shelf_pack" / "steps.py").write_text(STEPS)
    assert names("shelf_pack.steps") == ["shelf_pack.steps:hello"]


def test_a_step_that_two_modules_hold_counts_once(tmp_path: Path) -> None:
    (tmp_path / "shelf_one.py").write_text(STEPS)
    (tmp_path / "shelf_two.py").write_text("from shelf_one import hello\n")
    assert len(load_steps(["shelf_one.py", "shelf_two.py"])) == 1


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("def hello(): ...\n", "STEPS_NOT_FOUND", "no function that is declared with @step"),
        ("import shelf_nothing\n", "STEPS_BROKEN", r"\(shelf_bad.py:1\): ModuleNotFoundError"),
        ("\n\nraise SystemExit(3)\n", "STEPS_BROKEN", r"\(shelf_bad.py:3\): SystemExit: 3"),
        ("def (\n", "STEPS_BROKEN", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, text: str, code: str, told: str
) -> None:
    (tmp_path / "shelf_bad.py").write_text(text)
    with pytest.raises(Rejected, match=told) as caught:
        load_steps(["shelf_bad.py"])
    assert caught.value.code == code
    # A module that broke half-way is not kept; one that only has no steps is an ordinary module.
    assert ("shelf_bad" in sys.modules) == (code == "STEPS_NOT_FOUND")


@pytest.mark.parametrize("name", ["shelf_missing.py", "shelf_missing", "shelf_missing.part", "shelf/none"])
def test_a_module_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(Rejected) as caught:
        load_steps([name])
    assert caught.value.code == "STEPS_NOT_FOUND"


def test_a_file_does_not_take_the_name_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(STEPS)
    with pytest.raises(Rejected) as caught:
        load_steps([str(tmp_path / "json.py")])
    assert caught.value.code == "STEPS_NAME_TAKEN"


def answers(steps: list[Callable[..., Any]]) -> list[str]:
    return [step() for step in steps]


def test_modules_are_loaded_again_with_what_they_import_and_old_functions_stay_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "shelf_words.py").write_text("WORD = 'one'\n")
    source = "from penstock import step\nfrom shelf_words import WORD\n\n@step\ndef hello() -> str:\n    return WORD\n"
    (tmp_path / "shelf_again.py").write_text(source)
    modules = StepModules(["shelf_again.py"])
    before = modules.load()
    assert {path.name for path in modules.files()} == {"shelf_again.py", "shelf_words.py"}
    # The same size within the same second: compiled files could not tell.
    (tmp_path / "shelf_words.py").write_text("WORD = 'two'\n")
    after = modules.load()
    assert (answers(before), answers(after)) == (["one"], ["two"])
    assert sys.modules["shelf_again"].hello is after[0]
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_mistake_leaves_the_modules_that_were_loaded_before(tmp_path: Path) -> None:
    file = tmp_path / "shelf_broken.py"
    file.write_text(STEPS)
    modules = StepModules(["shelf_broken.py"])
    steps = modules.load()
    file.write_text(STEPS + "import shelf_helper\n")
    (tmp_path / "shelf_helper.py").write_text("x = (\n")
    with pytest.raises(Rejected) as caught:
        modules.load()
    assert caught.value.code == "STEPS_BROKEN"
    assert "(shelf_helper.py:1:5): SyntaxError" in caught.value.message
    assert sys.modules["shelf_broken"].hello is steps[0]
    assert "shelf_helper" not in sys.modules
    assert modules.files() == [file]
