"""Entries of Penstock in the configuration files on this machine: which there are, and whether they work.

Above it: `doctor` and `mcp.doctor`. Below it: `clients` knows the files. It changes nothing.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.cli.terminal.checks import Check
from penstock.cli.terminal.values import parse_json
from penstock.operations.system.clients import CLIENTS, InstallEnvironment, McpClient

__all__ = ["Entry", "entry_checks", "find_entries"]

_ADDRESSES = ("url", "serverUrl", "httpUrl")
_PROGRAM = "penstock"
_BYTES_MAX = 10_000_000
_TEXT = r'"(?:\\.|[^"\\])*"'
_COMMENTS = re.compile(rf"{_TEXT}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A server in the file of a client: an address, or a program with its arguments."""

    client: str
    path: Path
    name: str
    url: str | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Unreadable:
    client: str
    path: Path
    why: str


def entry_checks(
    here: InstallEnvironment, url: str | None, find: Callable[[str], str | None] = shutil.which
) -> Iterator[Check]:
    """Check the entries; `url` is the address of the server under check, if it has one."""
    seen = False
    for item in find_entries(here):
        if isinstance(item, _Unreadable):
            message = f"{CLIENTS[item.client].title}: {item.path} cannot be read here: {item.why}"
            yield Check(name="clients", status="skip", message=message)
        elif item.command and _is_penstock(item.command):
            seen = True
            yield _program_check(item, find)
        elif item.url is not None and (_same(item.url, url) or _PROGRAM in item.name.lower()):
            seen = True
            yield _address_check(item, url)
    if not seen:
        hint = "penstock mcp install CLIENT shows the entry for an assistant"
        yield Check(
            name="clients", status="skip", message="no assistant on this machine has an entry for it", hint=hint
        )


def _program_check(entry: Entry, find: Callable[[str], str | None]) -> Check:
    title, program = CLIENTS[entry.client].title, entry.command[0]
    message = f"{title}: {entry.name} starts {' '.join(entry.command)} ({entry.path})"
    if find(program) is None:
        hint = f"{program} is not found; write its whole path: penstock mcp install {entry.client} --write --replace"
        return Check(name="clients", status="warn", message=message, hint=hint)
    if not Path(program).is_absolute() and entry.client == "claude-desktop":
        hint = "an application with a window may not find it; write its whole path with penstock mcp install --write"
        return Check(name="clients", status="warn", message=message, hint=hint)
    return Check(name="clients", status="ok", message=message)


def _address_check(entry: Entry, url: str | None) -> Check:
    title = CLIENTS[entry.client].title
    if url is None or _same(entry.url, url):
        which = "this server" if url is not None else entry.url
        return Check(name="clients", status="ok", message=f"{title}: {entry.name} points to {which} ({entry.path})")
    message = f"{title}: {entry.name} points to {entry.url}, another server ({entry.path})"
    hint = f"if that is not meant: penstock mcp install {entry.client} --server URL --write --replace"
    return Check(name="clients", status="warn", message=message, hint=hint)


def find_entries(here: InstallEnvironment) -> Iterator[Entry | _Unreadable]:
    """Every server in the files of every client that is known."""
    for name, client in CLIENTS.items():
        for place in client.places.values():
            path = place(here)
            if not path.is_file():
                continue
            try:
                content = _read(path, client)
            except (OSError, ValueError, RecursionError) as error:
                yield _Unreadable(name, path, f"{error}"[:100])
                continue
            for servers in _servers(content, client, here):
                yield from _entries(name, path, servers)


def _read(path: Path, client: McpClient) -> Any:
    if path.stat().st_size > _BYTES_MAX:
        raise ValueError("it is very large")
    text = path.read_text(encoding="utf-8-sig")
    if not text.strip():
        return {}
    if client.form == "toml":
        return tomllib.loads(text)
    try:
        return parse_json(text)
    except ValueError:
        return parse_json(_plain_json(text))


def _plain_json(text: str) -> str:
    """JSON without the comments and trailing commas that editors accept; strings stay as they are."""
    for pattern in (_COMMENTS, _LAST_COMMAS):
        text = pattern.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    return text


def _servers(content: Any, client: McpClient, here: InstallEnvironment) -> Iterator[Mapping[str, Any]]:
    """The members of a file that have servers in them."""
    places = [client.members]
    if client.members == ("mcpServers",):
        # Claude Code keeps servers of one folder beside those of all.
        places.append(("projects", str(here.project), "mcpServers"))
    for members in places:
        found = content
        for member in members:
            found = found.get(member) if isinstance(found, dict) else None
        if isinstance(found, dict):
            yield found


def _entries(client: str, path: Path, servers: Mapping[str, Any]) -> Iterator[Entry]:
    for name, entry in servers.items():
        if not isinstance(entry, dict):
            continue
        address = next((entry[key] for key in _ADDRESSES if isinstance(entry.get(key), str)), None)
        yield Entry(client=client, path=path, name=name, url=address, command=_command(entry))


def _command(entry: Mapping[str, Any]) -> tuple[str, ...]:
    command, arguments = entry.get("command"), entry.get("args")
    if isinstance(command, list):
        return tuple(map(str, command))
    words = tuple(map(str, arguments)) if isinstance(arguments, list) else ()
    return (command, *words) if isinstance(command, str) and command else ()


def _is_penstock(command: tuple[str, ...]) -> bool:
    program = command[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return "mcp" in command[1:] and (program == _PROGRAM or _PROGRAM in command[1:])


def _same(first_url: str | None, second_url: str | None) -> bool:
    """Whether two addresses lead to the same endpoint, whatever their queries."""
    if first_url is None or second_url is None:
        return False
    first, second = urlsplit(first_url), urlsplit(second_url)
    return _endpoint(first) == _endpoint(second)


def _endpoint(parts: Any) -> tuple[str, str, int | None, str]:
    host = "localhost" if parts.hostname in ("127.0.0.1", "::1") else str(parts.hostname)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, host, port, parts.path.rstrip("/")
