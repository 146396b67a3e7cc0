"""What to do about a handler that no step has: the close name, the function or module that is missing, or the file.

Above it: the executor of steps, and the checks of a project. Below it: spelling suggestions.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.definitions.source.findings import nearest, suggestion

__all__ = ["handler_hint"]

_LISTED_MAX = 6
_LIST_IT = "list it under `steps.modules` in penstock.yaml, or pass `--steps {file}`"
_NONE_LOADED = (
    "no steps are loaded: list their file under `steps.modules` in penstock.yaml, pass `--steps FILE`, or register "
    "them with Penstock.open(steps=[…])"
)


def handler_hint(handler: str, names: Iterable[str], folder: Path) -> str:
    """Say what to do so that a handler is found; `names` are the steps that are loaded, `folder` may have more."""
    known = sorted(set(names))
    module, _, function = handler.rpartition(":")
    same_function = [name for name in known if name.rpartition(":")[2] == function]
    guess = suggestion(handler, known)
    if guess is not None:
        return guess
    if len(same_function) == 1:
        return f"did you mean `{same_function[0]}`?"
    in_module = [name.rpartition(":")[2] for name in known if name.rpartition(":")[0] == module]
    if module and in_module:
        return f"`{module}` has {_listed(in_module)}; declare `{function}` there with @step, or correct the name"
    if module:
        file = _file_of(module, folder)
        if file is not None:
            return f"{file} is in this folder and not loaded: {_LIST_IT.format(file=file)}"
    return f"there is {_listed(known)}; {_LIST_IT.format(file='FILE')}" if known else _NONE_LOADED


def _file_of(module: str, folder: Path) -> str | None:
    """The Python file of a module in the folder, or the one whose name is close."""
    place = f"{module.replace('.', '/')}.py"
    if (folder / place).is_file():
        return place
    close = nearest(module, [path.stem for path in folder.glob("*.py")])
    return None if close is None else f"{close}.py"


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_LISTED_MAX])
    return f"{shown} and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else shown
