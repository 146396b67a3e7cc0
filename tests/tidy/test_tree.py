"""The tree is the architecture: short rows of modules, folders instead of prefixes, packages that say what they are."""

import ast
import re
from collections import Counter
from pathlib import Path

from tests.together import together

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
MODULES_MAX = 20
PREFIX_MAX = 2


def crowds(folder: Path) -> list[str]:
    """What is wrong with the modules of a folder: too many, or three that share the beginning of their names."""
    modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    folders = [path.name for path in folder.iterdir() if (path / "__init__.py").exists()]
    shared = Counter(name.split("_")[0] for name in (*modules, *folders))
    found = [f"{count} names begin with {prefix}" for prefix, count in shared.items() if count > PREFIX_MAX]
    return [f"{len(modules)} modules", *found] if len(modules) > MODULES_MAX else found


def packages() -> list[str]:
    return sorted(str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py"))


@together(packages(), groups=4)
def test_a_package_is_a_short_row_of_modules_without_shared_prefixes(package: str) -> None:
    if "generated" in Path(package).parts:
        return  # one module for each resource; nobody writes or reads them in a row
    assert crowds(SOURCE / package) == []


def first_to_read(folder: Path) -> str | None:
    """The module or package that the docstring of a package tells a newcomer to read first, if it is there."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    found = re.search(r"Read\s+`(\w+)`[^.]*?\s+first", docstring)
    if found is None:
        return None
    name = found.group(1)
    return name if (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists() else None


def is_empty(folder: Path) -> bool:
    return [path.name for path in folder.glob("*.py")] == ["__init__.py"] and not any(folder.glob("*/__init__.py"))


@together(packages(), groups=4)
def test_a_package_says_what_lives_there_and_what_to_read_first(package: str) -> None:
    folder = SOURCE / package
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert is_empty(folder) or first_to_read(folder)


def test_a_module_to_read_first_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""Stores. Read `store` first."""')
    assert first_to_read(tmp_path) is None
    (tmp_path / "store.py").touch()
    assert first_to_read(tmp_path) == "store"


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    assert folders == set(packages())


def test_too_many_modules_and_a_shared_prefix_are_found(tmp_path: Path) -> None:
    for name in ("store_reads", "store_writes", "store_rows", *(f"m{number}" for number in range(18))):
        (tmp_path / f"{name}.py").touch()
    assert crowds(tmp_path) == ["21 modules", "3 names begin with store"]
