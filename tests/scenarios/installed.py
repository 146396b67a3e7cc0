"""An installation as `pip install .` makes it: the built wheel, and what the wheel asks for, and nothing else.

What the wheel asks for is taken from the environment of the tests instead of a package index, so it is made in a second
and without a network. A library that only the tests or an extra bring is not there.
"""

import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.waiting import SECONDS_MAX

__all__ = ["install_checkout", "install_wheel", "offline_index"]

_ROOT = Path(__file__).parents[2]
_DISTRIBUTION = "penstock-mcp"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_checkout(folder: Path, command: str) -> Path:
    """Run an install command as it is printed, in the checkout, with pip in an empty environment; its programs.

    Variables of pip keep it from asking an index: what builds the wheel is there while it is needed.
    """
    environment = folder / "checkout"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=SECONDS_MAX)
    programs, packages = environment / "bin", next(environment.glob("lib/python*/site-packages"))
    # Without build isolation, what builds the wheel is taken from the environment.
    offline = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    given = {**offline, "PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    for name in _closure(["hatchling"]):
        _link(name, packages)
    subprocess.run(shlex.split(command), cwd=_ROOT, env=given, check=True, capture_output=True, timeout=SECONDS_MAX)
    for name in _closure(distribution(_DISTRIBUTION).requires or ()):
        _link(name, packages)
    return programs


def install_wheel(folder: Path) -> Path:
    """Build the wheel and install it into an empty environment; the folder with its programs."""
    wheel = Path(next(WheelBuilder(str(_ROOT)).build(directory=str(folder / "dist"), versions=["standard"])))
    environment = folder / "environment"
    _run("venv", "--quiet", "--offline", "--python", sys.executable, str(environment))
    programs = environment / "bin"
    _run("pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(programs / "python"), str(wheel))
    packages = next(environment.glob("lib/python*/site-packages"))
    for name in _closure(_required_by(wheel)):
        _link(name, packages)
    return programs


def offline_index(folder: Path) -> Path:
    """Make a folder of wheels from which uv installs the checkout without a network.

    What builds the wheel is packed as it is. Every other library is a stand-in of its name and version, which leads to
    the library in the environment of the tests.
    """
    folder.mkdir()
    builders = set(_closure(["hatchling"]))
    for name in {*builders, *_closure(distribution(_DISTRIBUTION).requires or ())}:
        found = distribution(name)
        label = f"{re.sub(r'[-_.]+', '_', found.metadata['Name'])}-{found.version}"
        about = f"{label}.dist-info"
        with zipfile.ZipFile(folder / f"{label}-py3-none-any.whl", "w") as wheel:
            if name in builders:
                for file in found.files or ():
                    if file.parts[0] not in ("..", about) and file.suffix != ".pyc":
                        wheel.write(str(file.locate()), str(file))
            else:
                wheel.writestr(f"{label}.pth", f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
            needs = "".join(f"Requires-Dist: {item}\n" for item in found.requires or () if name in builders)
            head = f"Metadata-Version: 2.1\nName: {found.metadata['Name']}\nVersion: {found.version}\n"
            wheel.writestr(f"{about}/METADATA", head + needs)
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    return folder


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *words], check=True, capture_output=True, timeout=SECONDS_MAX)


def _required_by(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(item for item in archive.namelist() if item.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])


def _closure(requirements: Iterable[str]) -> Iterator[str]:
    """The distributions that requirements bring: those of extras are left out, those of other systems are not here."""
    waiting, seen = list(requirements), set[str]()
    while waiting:
        requirement = waiting.pop()
        name = _NAME.match(requirement)
        if name is None or "extra ==" in requirement or name[0].lower() in seen:
            continue
        seen.add(name[0].lower())
        try:
            found = distribution(name[0])
        except ModuleNotFoundError:
            assert ";" in requirement, f"{requirement} is asked for and not installed where the tests run"
            continue
        yield name[0]
        # An extra that a requirement names ([crypto]) is part of what it brings.
        asked = re.findall(r"\[([^]]*)\]", requirement)
        extras = {extra.strip() for item in asked for extra in item.split(",")}
        for inner in found.requires or ():
            marked = re.search(r"extra == ['\"]([^'\"]+)", inner)
            if marked is None:
                waiting.append(inner)
            elif marked[1] in extras:
                waiting.append(inner.partition(";")[0])


def _link(name: str, packages: Path) -> None:
    found = distribution(name)
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        source, target = Path(str(found.locate_file(top))), packages / top
        if not target.exists():
            target.symlink_to(source)
