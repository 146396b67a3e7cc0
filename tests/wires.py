"""Write everything that users and programs see of this tree to files, and compare those of two trees.

    python -m tests.wires DIR
    python -m tests.wires --compare BEFORE AFTER

It knows no module of Penstock but the command line: it calls commands, starts a server and reads its answers. So the
same file works in an older tree, and a refactoring can prove that nothing changed outside. Values that differ from run
to run (ports, keys, times) stay out of the files.

Above it: `scripts/wires`. Below it: the command line, and a server on a loopback port.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import importlib
import importlib.metadata
import inspect
import io
import itertools
import json
import os
import queue
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

__all__ = ["GROUPS", "compare", "main", "write"]

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 120.0
_DIFFERENCES_SHOWN = 40
_PUBLIC_MODULES = ("penstock", "penstock.testing", "penstock.client")

_MODERN = "2026-07-28"
_HANDSHAKE = "2025-11-25"
_ACCEPT = {"Accept": "application/json, text/event-stream"}
_MCP_LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_TOOLSETS = ("", "?toolset=management", "?toolset=workflows")
_DOCUMENTS = {
    "rest/openapi.json": "/openapi.json",
    "openwop/discovery.json": "/.well-known/openwop",
    "openwop/openapi.json": "/v1/openapi.json",
    "rest/not-found.json": "/api/v0/workflows/no-such-workflow",
    "rest/workflows.json": "/api/v0/workflows",
    "rest/bad-limit.json": "/api/v0/workflows?limit=none",
}
# Members of answers whose values differ from call to call.
_VARIES = re.compile(rb'"(request_id|requestId|instance|created_at|updated_at|last_changed_at)":("[^"]*"|null)')

Files = Iterator[tuple[str, bytes]]


# --- Commands ---------------------------------------------------------------------------------------------------------


def _entry_point() -> tuple[Callable[[], None], click.Group]:
    """The function that `penstock` calls, and the application behind it."""
    (found,) = importlib.metadata.entry_points(group="console_scripts", name="penstock")
    return found.load(), importlib.import_module(found.module).app


def _called(arguments: Sequence[str]) -> bytes:
    """Run a command in this process, which is much faster; return what it prints, and its exit code at the end."""
    call, _ = _entry_point()
    printed, code, given = io.StringIO(), 0, sys.argv
    sys.argv = ["penstock", *arguments]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            call()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv = given
    return f"{printed.getvalue()}exit code {code}\n".encode()


def _commands() -> Iterator[tuple[str, ...]]:
    """The names of every command and group, hidden ones too."""
    _, app = _entry_point()
    found: list[tuple[tuple[str, ...], click.Command]] = [((), app)]
    while found:
        words, command = found.pop()
        yield words
        if isinstance(command, click.Group):
            context = command.make_context("penstock", [], resilient_parsing=True)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                found.append(((*words, name), inner))


def help_texts() -> Files:
    """`--help` of every command."""
    for words in sorted(_commands()):
        yield f"help/{'-'.join(('penstock', *words))}.txt", _called([*words, "--help"])


def schemas() -> Files:
    """The JSON Schemas of documents and of settings."""
    for kind in ("native", "published", "all"):
        yield f"schemas/workflow-{kind}.json", _called(["workflow", "json-schema", "--format", kind])
    yield "schemas/settings.json", _called(["config", "schema"])


def outputs() -> Files:
    """What commands print about the examples."""
    examples = sorted(
        path.name
        for path in (ROOT / "examples").glob("*.*")
        if path.suffix in {".yaml", ".json"} and not path.name.endswith(".tests.yaml")
    )
    yield "outputs/validate.json", _called(["validate", "--alone", "--json", "examples"])
    yield "outputs/validate.txt", _called(["validate", "--alone", "examples"])
    yield "outputs/test.txt", re.sub(rb"[\d.,]+ m?s\b", b"T", _called(["test", "examples"]))
    yield "outputs/config-show.txt", _called(["config", "show", "--origin"])
    yield "outputs/no-such-command.txt", _called(["no-such-command"])
    yield "outputs/no-such-file.txt", _called(["validate", "no-such-file.yaml"])
    for name in examples:
        for form in ("mermaid", "svg"):
            yield f"outputs/graph-{name}.{form}", _called(["workflow", "draw", "--format", form, f"examples/{name}"])
    for older, newer in itertools.pairwise(examples):
        both = (f"examples/{older}", f"examples/{newer}")
        yield f"outputs/diff-{older}-{newer}.json", _called(["workflow", "diff", "--json", *both])
        yield f"outputs/diff-{older}-{newer}.txt", _called(["workflow", "diff", *both])


# --- A server ---------------------------------------------------------------------------------------------------------


class _Server:
    """A server process in a folder, and requests to it."""

    def __init__(self, process: subprocess.Popen[str], started: Mapping[str, Any]) -> None:
        self.process = process
        self.port = int(str(started["address"]).rpartition(":")[2])
        self.key = str(started["owner_key"])

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """The status, the headers and the body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()


@contextmanager
def _serving(folder: Path) -> Iterator[_Server]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--port",
            "0",
            "--json",
            "--db",
            "penstock.db",
            "--workflows=examples",
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[str | None] = queue.Queue()
    assert process.stderr is not None
    reader = threading.Thread(target=_read, args=(process.stderr, lines), daemon=True)
    reader.start()
    try:
        yield _Server(process, _started(lines))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS_MAX)
        reader.join(SECONDS_MAX)


def _read(log: TextIO, lines: queue.Queue[str | None]) -> None:
    with log:
        for line in log:
            lines.put(line)
    lines.put(None)


def _started(lines: queue.Queue[str | None]) -> Mapping[str, Any]:
    said = []
    while (line := lines.get(timeout=SECONDS_MAX)) is not None:
        said.append(line)
        if '"server_started"' in line:
            found: dict[str, Any] = json.loads(line)
            return found
    raise RuntimeError("the server did not start:\n" + "".join(said))


def _result(content_type: str, body: bytes) -> bytes:
    """The JSON of an answer over MCP, which may be the only event of a stream."""
    if content_type.startswith("text/event-stream"):
        data = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
        return data[-1]
    return body


def _modern(server: _Server, query: str) -> Files:
    meta = {"io.modelcontextprotocol/protocolVersion": _MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    for method in ("server/discover", *_MCP_LISTS):
        headers = {"MCP-Protocol-Version": _MODERN, "Mcp-Method": method, **_ACCEPT}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
        _, found, answer = server.request("POST", f"/mcp{query}", body, headers)
        yield method, _result(found.get("content-type", ""), answer)


def _handshake(server: _Server, query: str) -> Files:
    headers = dict(_ACCEPT)
    params = {"protocolVersion": _HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "wires", "version": "1"}}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    _, found, answer = server.request("POST", f"/mcp{query}", body, headers)
    yield "initialize", _result(found.get("content-type", ""), answer)
    headers |= {"Mcp-Session-Id": found["mcp-session-id"], "MCP-Protocol-Version": _HANDSHAKE}
    server.request("POST", f"/mcp{query}", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    for method in _MCP_LISTS:
        _, found, answer = server.request(
            "POST", f"/mcp{query}", {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}, headers
        )
        yield method, _result(found.get("content-type", ""), answer)


def served(folder: Path) -> Files:
    """What a server publishes over REST, MCP and OpenWOP; its metrics; and the tables of its file."""
    with _serving(folder) as server:
        for name, path in _DOCUMENTS.items():
            status, headers, body = server.request("GET", path)
            del headers
            yield name, _VARIES.sub(rb'"\1":"*"', body) + f"\nstatus {status}\n".encode()
        for query in _TOOLSETS:
            label = query.partition("=")[2] or "default"
            for era, asked in (("modern", _modern), ("handshake", _handshake)):
                for method, answer in asked(server, query):
                    yield f"mcp/{era}-{label}-{method.replace('/', '-')}.json", answer
        _, _, metrics = server.request("GET", "/metrics")
        described = [line for line in metrics.decode().splitlines() if line.startswith("#")]
        yield "rest/metrics.txt", ("\n".join(described) + "\n").encode()
    # Only after the end: a table may be made when it is first needed.
    with contextlib.closing(sqlite3.connect(folder / "penstock.db")) as database:
        rows = database.execute("select type, name, sql from sqlite_master order by type, name").fetchall()
        versions = [database.execute(f"pragma {name}").fetchone()[0] for name in ("user_version", "application_id")]
    tables = "\n".join(f"{kind} {name}\n{sql or ''}" for kind, name, sql in rows)
    yield "file/tables.sql", f"{tables}\nversions {versions}\n".encode()


# --- Pages and public names -------------------------------------------------------------------------------------------


def pages() -> Files:
    """The reference pages without the line that names their source, and the files of the operating guide."""
    for folder in ("reference", "operating"):
        for path in sorted((ROOT / "docs" / folder).glob("*")):
            yield f"pages/{path.name}", re.sub(rb"<!-- Made by .*?-->\n", b"", path.read_bytes())


def public_names() -> Files:
    """What programs import, with the parameters of functions and methods."""
    for module_name in _PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        lines = []
        for name in sorted(module.__all__):
            found = getattr(module, name)
            lines.append(f"{name}{_parameters(found)}")
            if inspect.isclass(found):
                members = inspect.getmembers(found, callable)
                lines += [f"{name}.{inner}{_parameters(part)}" for inner, part in members if not inner.startswith("_")]
        yield f"names/{module_name}.txt", ("\n".join(lines) + "\n").encode()


def _parameters(found: Any) -> str:
    try:
        return f"({', '.join(inspect.signature(found).parameters)})" if callable(found) else ""
    except (TypeError, ValueError):
        return "(…)"


# --- Writing and comparing --------------------------------------------------------------------------------------------

GROUPS = ("help", "schemas", "outputs", "rest", "mcp", "openwop", "file", "pages", "names")


def write(target: Path) -> dict[str, Any]:
    """Write every file below a folder, and return a summary."""
    os.environ.update(COLUMNS="100", LINES="50", TERM="dumb", NO_COLOR="1", LC_ALL="C.UTF-8", TZ="UTC")
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        del os.environ[name]
    if target.exists():
        shutil.rmtree(target)
    found: dict[str, bytes] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        # Commands name files as they were given, so all of them are named from here.
        os.chdir(folder)
        os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = name
        try:
            for made in (help_texts(), schemas(), outputs(), served(folder), pages(), public_names()):
                found.update(made)
        finally:
            os.chdir(before)
        found = {path: body.replace(os.fsencode(name), b"FOLDER") for path, body in found.items()}
    for path, body in found.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    return {"files": len(found), "groups": digests(found), "ok": _is_complete(found)}


def digests(found: Mapping[str, bytes]) -> dict[str, str]:
    """One sha256 for each group: over names and contents, in order."""
    made = {group: hashlib.sha256() for group in GROUPS}
    for path in sorted(found):
        made[path.partition("/")[0]].update(path.encode() + b"\0" + found[path] + b"\0")
    return {group: digest.hexdigest() for group, digest in made.items()}


def _is_complete(found: Mapping[str, bytes]) -> bool:
    groups = {path.partition("/")[0] for path in found}
    return groups == set(GROUPS) and all(found.values())


def compare(before: Path, after: Path) -> list[str]:
    """The differences between two folders, one line each."""
    files = [{str(path.relative_to(top)): path for path in top.rglob("*") if path.is_file()} for top in (before, after)]
    differences = []
    for path in sorted({*files[0], *files[1]}):
        if path not in files[1]:
            differences.append(f"{path}: is gone")
        elif path not in files[0]:
            differences.append(f"{path}: is new")
        else:
            old, new = files[0][path].read_bytes(), files[1][path].read_bytes()
            if old != new:
                differences += [f"{path}{where}" for where in _places(old, new)]
    return differences


def _places(old: bytes, new: bytes) -> Iterator[str]:
    try:
        values = [json.loads(body.partition(b"\nstatus ")[0].partition(b"\nexit code ")[0]) for body in (old, new)]
    except ValueError:
        pass
    else:
        if found := list(_differing("", *values)):
            yield from found
            return
    pairs = zip(old.decode().splitlines(), new.decode().splitlines(), strict=False)
    number, one, other = next(((n, a, b) for n, (a, b) in enumerate(pairs, 1) if a != b), (0, "", "the length"))
    yield f":{number}: {one!r} -> {other!r}"


def _differing(place: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            yield f" {place or '/'}: members {[*old]} -> {[*new]}"[:400]
        for name in old.keys() & new.keys():
            yield from _differing(f"{place}/{name}", old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differing(f"{place}/{number}", one, other)
    elif old != new:
        yield f" {place or '/'}: {old!r} -> {new!r}"[:400]


def main(arguments: Sequence[str]) -> int:
    """Write a folder, or compare two."""
    parser = argparse.ArgumentParser(prog="scripts/wires", description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="start", type=Path, default=Path.cwd(), help=argparse.SUPPRESS)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="what differs between two")
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the folder to write; it is replaced")
    given = parser.parse_args(arguments)
    if given.compare is not None:
        differences = compare(*(given.start / folder for folder in given.compare))
        for line in differences[:_DIFFERENCES_SHOWN]:
            print(line)
        if len(differences) > _DIFFERENCES_SHOWN:
            print(f"and {len(differences) - _DIFFERENCES_SHOWN} more")
        print(json.dumps({"differences": len(differences), "ok": not differences}))
        return 1 if differences else 0
    if given.folder is None:
        parser.error("name a folder to write, or --compare BEFORE AFTER")
    written = write(given.start / given.folder)
    print(json.dumps(written))
    return 0 if written["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
