"""New projects: the files that `penstock init` writes, and where they may be written.

The files stand in `templates/project` as they will stand in the project, but for those that would mean something here
(`steps.py`, `.gitignore`): they end in `.template`.

Above it: the command. Below it: the file system.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from penstock.base.errors import Conflict, Unavailable

__all__ = ["create_project", "project_files"]

_SUFFIX = ".template"
_HIDDEN = {"gitignore": ".gitignore"}


def project_files() -> dict[str, str]:
    """The files of a new project by their paths in it."""
    return dict(sorted(_files_in(files("penstock.app") / "templates" / "project", "")))


def _files_in(folder: Traversable, place: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files_in(item, f"{place}{item.name}/")
            continue
        name = item.name.removesuffix(_SUFFIX)
        yield place + _HIDDEN.get(name, name), item.read_text(encoding="utf-8")


def create_project(folder: Path, *, force: bool = False) -> list[str]:
    """Write a project into a folder, which is made if need be; the paths of its files.

    `Conflict` names files that are there already, and nothing is written then; with `force` they are replaced.
    """
    wanted = project_files()
    # A link counts even if it leads nowhere: writing through it would put the file somewhere else.
    taken = [path for path in wanted if (folder / path).exists() or (folder / path).is_symlink()]
    if taken and not force:
        listed = ", ".join(taken)
        hint = "choose another folder, or replace them with --force"
        raise Conflict("PROJECT_EXISTS", f"{folder} already has {listed}", hint, {"files": [*taken]})
    try:
        for path, text in wanted.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        told = f"{error.filename or folder} cannot be written: {error.strerror or error}"
        raise Unavailable("PROJECT_UNWRITABLE", told, "choose a folder that you can write to") from error
    return list(wanted)
