"""Modules with steps as an operator names them: a file, or a module that can be imported.

    penstock server worker --steps shop/payments.py --steps billing.steps

Penstock imports only code that the operator names; documents name functions and nothing else. A file inside a package
is imported under its full name, so that `shop/payments.py` gives `shop.payments:refund`; a file that stands alone goes
by its own name. `StepModules` loads them again when their files have changed.

Above it: the commands that perform work. Below it: `runtime.steps`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.base.errors import Rejected
from penstock.runtime.steps.registry import is_step

__all__ = ["StepModules", "load_steps"]

_SUFFIX = ".py"
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


def load_steps(names: Iterable[str]) -> list[Callable[..., Any]]:
    """The declared steps of every module named, each once; `Rejected` when a module cannot be loaded or has none."""
    found: dict[int, Callable[..., Any]] = {}
    for name in names:
        steps = _steps_of(_module(name))
        if not steps:
            message = f"{name} has no function that is declared with @step"
            raise Rejected("STEPS_NOT_FOUND", message, "put @step (from penstock import step) above your functions")
        found.update((id(step), step) for step in steps)
    return list(found.values())


class StepModules:
    """Modules with steps that can be loaded again, together with whatever they import from the same project.

    Every load makes new modules. Code that is running at that moment continues in the old ones.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._own: dict[str, ModuleType] = {}

    def load(self) -> list[Callable[..., Any]]:
        """The steps as the files are now; `Rejected` when there is a mistake, and then all is as before."""
        for name in self._own:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        others = set(sys.modules)
        try:
            with _no_bytecode():
                steps = load_steps(self.names)
        except Rejected:
            for name in [name for name in sys.modules if name not in others]:
                if _is_of_project(sys.modules[name]):
                    del sys.modules[name]
            sys.modules.update(self._own)
            raise
        fresh = {name: module for name, module in sys.modules.items() if name not in others}
        self._own = {name: module for name, module in fresh.items() if _is_of_project(module)}
        return steps

    def files(self) -> list[Path]:
        """The files that the steps come from, and those that are named but could not be loaded."""
        named = [Path(name) for name in self.names if _is_file(name)]
        loaded = [Path(module.__file__) for module in self._own.values() if module.__file__]
        return list(dict.fromkeys(path.resolve() for path in (*named, *loaded)))


def _is_of_project(module: ModuleType) -> bool:
    """Whether a module belongs to the project, and is neither installed nor part of Python."""
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(_SUFFIX) or module.__name__.partition(".")[0] == "penstock":
        return False
    parts = Path(file).resolve().parts
    return not {"site-packages", "dist-packages"}.intersection(parts) and not file.startswith(_STANDARD_LIBRARY)


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Write no bytecode: its timestamps are whole seconds, so a second change within one would go unnoticed."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _is_file(name: str) -> bool:
    return name.endswith(_SUFFIX) or "/" in name


def _steps_of(module: ModuleType) -> list[Callable[..., Any]]:
    return [value for value in vars(module).values() if is_step(value)]


def _module(name: str) -> ModuleType:
    is_file = _is_file(name)
    try:
        return _from_file(Path(name)) if is_file else _imported(name)
    except Rejected:
        raise
    except ModuleNotFoundError as error:
        if not is_file and error.name is not None and f"{name}.".startswith(f"{error.name}."):
            hint = "name a file (steps.py) or a module that can be imported from this folder"
            raise Rejected("STEPS_NOT_FOUND", f"there is no module {name}", hint) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # whatever a module does while it is imported
        raise _broken(name, error) from error


def _imported(name: str) -> ModuleType:
    _make_importable(Path.cwd())
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    file = path.resolve()
    if not file.is_file():
        raise Rejected("STEPS_NOT_FOUND", f"there is no file {path}", "check the path after --steps")
    folder, name = file.parent, file.stem
    if (folder / "__init__.py").exists():
        while (folder / "__init__.py").exists():
            folder, name = folder.parent, f"{folder.name}.{name}"
        _make_importable(folder)
        return _same_file(importlib.import_module(name.removesuffix(".__init__")), file, path)
    if name in sys.modules:
        return _same_file(sys.modules[name], file, path)
    _make_importable(folder)
    return _executed(file, name)


def _executed(file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Rejected("STEPS_NOT_FOUND", f"{file.name} is not a Python file", "name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs, as with any import: other processes and annotations look it up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _same_file(module: ModuleType, file: Path, path: Path) -> ModuleType:
    loaded_from = getattr(module, "__file__", None)
    if loaded_from is None or Path(loaded_from).resolve() != file:
        message = f"{path} would be the module {module.__name__}, but a different module has this name"
        raise Rejected("STEPS_NAME_TAKEN", message, "give the file a name of its own, or put it into a package")
    return module


def _make_importable(folder: Path) -> None:
    """Put a folder where imports look, as `python FILE` and `python -m` do."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _broken(name: str, error: BaseException) -> Rejected:
    message = f"{name} cannot be loaded ({_place(error)}): {type(error).__name__}: {_words(error)}"
    return Rejected("STEPS_BROKEN", message, "correct the module; `python -c 'import …'` shows the whole traceback")


def _place(error: BaseException) -> str:
    """Where a module fails: the line that cannot be understood, or the last one that was executed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}:{error.offset}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "somewhere"


def _words(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
