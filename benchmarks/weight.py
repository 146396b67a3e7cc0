"""What an installation weighs: packages, disk space, and how long the first answers take.

    scripts/benchmark weight [--environment FOLDER] [--rounds N]

Without `--environment` it makes a new virtual environment and installs the checkout there with pip, as a user does.

- packages: installed distributions, Penstock included, without pip and setuptools.
- megabytes: the disk space of their files and folders in units of 1,048,576 bytes, compiled modules included, as `du`
  counts it. `megabytes_of_content` is the length of the files alone. `largest` lists both for the heaviest packages.
- help_ratio: the processor time of `penstock --help` over that of `python -c pass`, medians of rounds that alternate;
  `help_wall_ratio` is the same for the time on the clock.
- import_ms: the processor time that importing a library takes in a new interpreter, above that of `pass`.
- first_mcp_answer_cpu_ms: the processor time of `penstock mcp`, started over a pipe in a new project, when it has
  answered `initialize` and `tools/list`. The first start creates the database and is not counted.

The last line is one JSON object; `ok` if every target holds. `weigh` gives the same to other programs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from benchmarks.servers import missed_targets

__all__ = ["Cost", "first_mcp_answer", "import_costs", "install_checkout", "installed_sizes", "weigh"]

_ROOT = Path(__file__).resolve().parent.parent
_TOOLS = frozenset({"pip", "setuptools", "wheel"})
_MEGABYTE = 1 << 20
_BLOCK = 512
_SHOWN = 16
_TARGETS = {
    "packages": ("at_most", 45.0),
    "megabytes": ("at_most", 125.0),
    "help_ratio": ("at_most", 6.0),
    "first_mcp_answer_cpu_ms": ("at_most", 600.0),
}
# Libraries that some command imports, with the name of their module.
_LIBRARIES = (
    "click",
    "pydantic",
    "mcp",
    "starlette.routing",
    "uvicorn",
    "httpx2",
    "cryptography.x509",
    "cedarpy",
    "jsonschema_rs",
    "jinja2",
    "joserfc.jws",
    "prometheus_client",
    "yaml",
    "jq",
)
_REQUESTS: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "weight", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a package takes on disk, in bytes."""

    name: str
    on_disk: int
    content: int


@dataclass(frozen=True, slots=True)
class _Time:
    wall_ms: float
    cpu_ms: float


def install_checkout(folder: Path) -> Path:
    """Make an environment in a folder and install the checkout into it; return its `bin`."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(_ROOT)]
    subprocess.run(command, check=True, stdout=sys.stderr, cwd=folder, env={**os.environ, "PYTHONPATH": ""})
    return folder / "bin"


def installed_sizes(programs: Path) -> list[Cost]:
    """What each package of an environment takes, the heaviest first."""
    (place,) = (programs.parent / "lib").glob("python3.*/site-packages")
    found = (_size(package, place) for package in distributions(path=[str(place)]) if package.name not in _TOOLS)
    return sorted(found, key=lambda cost: -cost.on_disk)


def _size(package: Distribution, place: Path) -> Cost:
    files = {path for item in package.files or () if (path := Path(str(package.locate_file(item)))).is_file()}
    # Folders take space as well. One that several packages share is rare, and small.
    folders = {parent for path in files for parent in path.parents if place in parent.parents}
    on_disk = sum(path.stat().st_blocks * _BLOCK for path in (*files, *folders))
    return Cost(package.name, on_disk, sum(path.stat().st_size for path in files))


def _run_once(command: Sequence[str], folder: Path) -> _Time:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Time(wall * 1000, used * 1000)


def _median_times(commands: dict[str, list[str]], rounds: int, folder: Path) -> dict[str, _Time]:
    """Run every command once in each round, so that all of them meet the same weather; the medians."""
    for command in commands.values():  # the first time reads everything from disk
        _run_once(command, folder)
    times: dict[str, list[_Time]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(_run_once(command, folder))
    return {
        name: _Time(statistics.median(t.wall_ms for t in found), statistics.median(t.cpu_ms for t in found))
        for name, found in times.items()
    }


def import_costs(programs: Path, modules: Iterable[str], rounds: int, folder: Path) -> dict[str, float]:
    """The processor time in milliseconds that importing each module takes; modules that are not there are left out."""
    python = str(programs / "python")
    check = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1].partition('.')[0]) is None)"
    present = [name for name in modules if subprocess.run([python, "-c", check, name], check=False).returncode == 0]
    commands = {name: [python, "-c", f"import {name}"] for name in present}
    times = _median_times({"": [python, "-c", "pass"], **commands}, rounds, folder)
    return {name: round(times[name].cpu_ms - times[""].cpu_ms, 1) for name in present}


def first_mcp_answer(programs: Path, rounds: int, folder: Path) -> dict[str, float]:
    """How long `penstock mcp` takes to answer `initialize` and `tools/list`, in a new project."""
    penstock = str(programs / "penstock")
    project = folder / "project"
    subprocess.run([penstock, "init", str(project)], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    _answer_once(penstock, project)
    times = [_answer_once(penstock, project) for _ in range(rounds)]
    return {
        "first_mcp_answer_cpu_ms": round(statistics.median(found.cpu_ms for found in times)),
        "first_mcp_answer_ms": round(statistics.median(found.wall_ms for found in times)),
    }


def _answer_once(penstock: str, project: Path) -> _Time:
    began = time.perf_counter()
    with subprocess.Popen(
        [penstock, "mcp"], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for request in _REQUESTS:
            running.stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
            running.stdin.flush()
            if "id" in request:
                answer = json.loads(running.stdout.readline())
                if answer.get("id") != request["id"] or "result" not in answer:
                    raise SystemExit(f"{request['method']} was answered with {answer}")
        found = _Time((time.perf_counter() - began) * 1000, _used_ms(running.pid))
        running.stdin.close()
        running.stdout.read()
    return found


def _used_ms(pid: int) -> float:
    """The processor time that a process and the ended ones below it have used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * 1000 / os.sysconf("SC_CLK_TCK")


def weigh(programs: Path, *, rounds: int) -> dict[str, Any]:
    """Everything that is measured of an environment whose commands are in this folder."""
    sizes = installed_sizes(programs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, penstock = str(programs / "python"), str(programs / "penstock")
        commands = {"pass": [python, "-c", "pass"], "help": [penstock, "--help"], "version": [penstock, "--version"]}
        times = _median_times(commands, rounds, folder)
        imports = import_costs(programs, _LIBRARIES, max(3, rounds // 4), folder)
        answers = first_mcp_answer(programs, max(3, rounds // 4), folder)
    nothing, helped = times["pass"], times["help"]
    return {
        "packages": len(sizes),
        "megabytes": round(sum(cost.on_disk for cost in sizes) / _MEGABYTE, 1),
        "megabytes_of_content": round(sum(cost.content for cost in sizes) / _MEGABYTE, 1),
        "largest": {cost.name: round(cost.on_disk / _MEGABYTE, 1) for cost in sizes[:_SHOWN]},
        "python_pass_cpu_ms": round(nothing.cpu_ms, 1),
        "help_cpu_ms": round(helped.cpu_ms, 1),
        "version_cpu_ms": round(times["version"].cpu_ms, 1),
        "help_ratio": round(helped.cpu_ms / nothing.cpu_ms, 1),
        "help_wall_ratio": round(helped.wall_ms / nothing.wall_ms, 1),
        "import_ms": imports,
        **answers,
    }


def main() -> int:
    """Measure, print, and say by the exit code whether every target holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, help="a virtual environment with Penstock, in place of a new one")
    parser.add_argument("--rounds", type=int, default=40, help="how often each command is timed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        given: Path | None = arguments.environment
        programs = install_checkout(Path(name)) if given is None else given.resolve() / "bin"
        figures = weigh(programs, rounds=arguments.rounds)
    missed = missed_targets(figures, _TARGETS)
    figures.update({"missed": missed, "ok": not missed})
    print(json.dumps(figures))
    return 0 if not missed else 1


if __name__ == "__main__":
    raise SystemExit(main())
