"""Adding one entry to a configuration file: everything else in it stays, and a copy of it is left beside it.

A file that cannot be parsed is not touched. The new file replaces the old one in one step and keeps its permissions; a
symbolic link is followed.

Above it: `command`. Below it: the file system, the form of entries. It knows no client.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.terminal.values import UsageError, parse_json
from penstock.operations.system.clients import Addition, snippet, toml_key

__all__ = ["Written", "write_addition"]

_BACKUPS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The outcome of adding an entry to a file."""

    path: Path
    changed: bool
    backup: Path | None


def write_addition(path: Path, addition: Addition, *, replaces: bool) -> Written:
    """Put the entry into the file."""
    real = path.resolve()
    try:
        old = real.read_text(encoding="utf-8-sig") if real.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    merge = _merged_toml if addition.form == "toml" else _merged_json
    new = merge(path, old or "", addition, replaces=replaces)
    if new is None:
        return Written(path=path, changed=False, backup=None)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        backup = None if old is None else _backed_up(real)
        _put(real, new)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from None
    return Written(path=path, changed=True, backup=backup)


def _merged_json(path: Path, old: str, addition: Addition, *, replaces: bool) -> str | None:
    try:
        content = parse_json(old) if old.strip() else {}
    except (ValueError, RecursionError):
        message = "is not plain JSON (comments and trailing commas are not kept); add the entry by hand"
        raise UsageError(f"{path} {message}:\n{snippet(addition)}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} has no JSON object in it; add the entry by hand:\n{snippet(addition)}")
    merged = _merged(content, addition, replaces=replaces, path=path)
    return None if merged == content else json.dumps(merged, indent=2, ensure_ascii=False) + "\n"


def _merged(content: JsonObject, addition: Addition, *, replaces: bool, path: Path | None = None) -> JsonObject:
    """The content with the entry in it; the first object is not changed."""
    # Inputs come before the entry that uses them, where the order is free.
    result: JsonObject = {}
    for name, wanted in addition.beside.items():
        result[name] = _with_members(content.get(name), wanted)
    result = {**content, **result} if content else result
    place = result
    for member in addition.members:
        inner = place.get(member, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{path}: `{member}` is not an object; put it right first")
        place[member] = dict(inner)
        place = place[member]  # type: ignore[assignment]  # it was made in the line above
    _refuse_other(place.get(addition.name), addition, replaces=replaces, path=path)
    place[addition.name] = addition.entry
    return result


def _with_members(found: JsonValue, wanted: list[JsonObject]) -> list[JsonValue]:
    present = list(found) if isinstance(found, list) else []
    known = {item.get("id") for item in present if isinstance(item, dict)}
    return [*present, *(item for item in wanted if item["id"] not in known)]


def _refuse_other(found: JsonValue, addition: Addition, *, replaces: bool, path: Path | None) -> None:
    if found is not None and found != addition.entry and not replaces:
        raise UsageError(
            f"{path} has another server called {addition.name}; replace it with --replace, or choose a name with --name"
        )


def _merged_toml(path: Path, old: str, addition: Addition, *, replaces: bool) -> str | None:
    keys = (*addition.members, addition.name)
    before = _toml(path, old, addition)
    found: Any = before
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    if found == addition.entry:
        return None
    _refuse_other(found, addition, replaces=replaces, path=path)
    kept = old if found is None else _without_table(old, keys)
    new = kept.rstrip("\n") + ("\n\n" if kept.strip() else "") + snippet(addition)
    # The text is edited, not rewritten; so check that the rest still means the same.
    after = _toml(path, new, addition)
    if _rest(after, keys) != _rest(before, keys):
        raise UsageError(
            f"{path} is written in a way that cannot be changed here; edit it by hand:\n{snippet(addition)}"
        )
    return new


def _toml(path: Path, text: str, addition: Addition) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path} is not TOML that can be added to: {error}; edit it by hand"
        raise UsageError(f"{message}:\n{snippet(addition)}") from None


def _rest(content: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Everything but the entry."""
    first, *inner = keys
    if not inner:
        return {name: value for name, value in content.items() if name != first}
    place = content.get(first)
    below = _rest(place, tuple(inner)) if isinstance(place, dict) else {}
    others = {name: value for name, value in content.items() if name != first}
    return {**others, first: below} if below else others


def _without_table(text: str, keys: tuple[str, ...]) -> str:
    """The text without a table and the tables in it."""
    header = ".".join(map(toml_key, keys))
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if stripped.startswith("["):
            inside = stripped.startswith((f"[{header}]", f"[{header}."))
        if not inside:
            kept.append(line)
    return "".join(kept)


def _backed_up(path: Path) -> Path:
    for number in range(_BACKUPS_MAX):
        backup = path.with_name(f"{path.name}.backup{f'-{number}' if number else ''}")
        if not backup.exists():
            shutil.copy2(path, backup)
            return backup
    raise UsageError(f"there are {_BACKUPS_MAX} backups of {path}; remove some")


def _put(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, name)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
