"""`penstock tool import openapi`: what an OpenAPI document offers, and the entry of the settings that imports it.

With `--preview` nothing is written: names, sizes, what is refused and why. Without it, the document is stored in the
project and an entry is added to `penstock.yaml`, or printed where the file already has APIs.

Above it: the group. Below it: the same reading of documents that the executor uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import yaml

from penstock.app.executors.apis import api_document, read_overrides
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, print_json
from penstock.cli.terminal.values import UsageError
from penstock.runtime.upstreams.openapi.document import read_document
from penstock.runtime.upstreams.openapi.operations import ApiImport, ApiOperation, import_operations

__all__ = ["openapi_command"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_READING = ("GET", "HEAD", "OPTIONS")
_ROWS_SHOWN = 40


def openapi_command(  # noqa: PLR0913  # each is an option
    source: Annotated[str, Argument(metavar="FILE|URL", help="The OpenAPI document, JSON or YAML.")],
    *,
    preview: Annotated[bool, Option("--preview", help="Show what would be imported, and write nothing.")] = False,
    name: Annotated[
        str | None, Option("--name", help="What the API is called here; from its title if not given.")
    ] = None,
    operations: Annotated[
        list[str] | None,
        Option("--operations", metavar="PATTERN", help="Operations to import, by name or pattern; repeatable."),
    ] = None,
    overrides: Annotated[
        Path | None, Option("--overrides", metavar="FILE", help="A side file with names and texts of operations.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Offer operations of an API as governed tools, from its OpenAPI document.

    Only operations that `--operations` names are imported. They wait for somebody to accept them (`penstock tool
    upstream accept`), and for somebody's approval when an agent calls one that writes, unless the settings say
    otherwise.
    """

    async def work() -> int:
        loaded = command_settings(config, {}, as_json=as_json)
        text = await api_document(loaded.settings, source)
        side = read_overrides(None if overrides is None else str(overrides))
        imported = import_operations(read_document(text, name=source), side)
        wanted = tuple(operations or ())
        chosen = {key: item for key, item in imported.operations.items() if _is_wanted(key, wanted)}
        if wanted and not chosen:
            message = f"no operation matches {', '.join(wanted)}"
            raise Rejected("OPENAPI_NOTHING_CHOSEN", message, "list the operations with --preview")
        if preview:
            _show_preview(imported, chosen, as_json=as_json)
            return 0
        called = name or _name_of(imported.title)
        if not _NAME.fullmatch(called):
            raise UsageError(f"{called} is not a valid name: use up to 32 letters, digits, `_` and `-` after --name")
        if not wanted:
            raise UsageError("choose operations with --operations; --preview lists them")
        if called in loaded.settings.tool_sources:
            raise Rejected("OPENAPI_NAMES", f"the settings have {called} already", "choose another one with --name")
        written = _write(Path(loaded.file or "penstock.yaml"), called, text, imported, wanted, overrides)
        _show_written(called, chosen, written, as_json=as_json)
        return 0

    exit_with_async(work, as_json=as_json)


def _is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _name_of(title: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", title.lower())
    return "_".join(word for word in words if word not in ("api", "rest", "the"))[:32].strip("_") or "api"


def _size(operation: ApiOperation) -> int:
    """Return about as many bytes as the tool takes in a list of tools."""
    return len(encode_bytes([operation.name, operation.title, operation.description, operation.input_schema]))


def _show_preview(imported: ApiImport, chosen: Mapping[str, ApiOperation], *, as_json: bool) -> None:
    sizes = {name: _size(item) for name, item in chosen.items()}
    if as_json:
        listed: list[JsonValue] = [
            {
                "name": name,
                "operation": item.key,
                "title": item.title,
                "risk": "low" if item.method in _READING else "high",
                "bytes": sizes[name],
                "cut": item.cut,
            }
            for name, item in chosen.items()
        ]
        refused: list[JsonValue] = [{"operation": item.key, "reason": item.reason} for item in imported.refused]
        print_json(
            {
                "title": imported.title,
                "base_url": imported.server_url,
                "operations": listed,
                "refused": refused,
                "bytes": sum(sizes.values()),
                "security": dict(imported.security),
            }
        )
        return
    echo(f"{imported.title}: {imported.server_url or 'no address in the document; set base_url'}")
    width = max(map(len, chosen), default=0)
    for name, item in list(chosen.items())[:_ROWS_SHOWN]:
        risk = "reads" if item.method in _READING else "writes, risk high"
        echo(f"  {name:<{width}}  {sizes[name]:>6} B  {item.key}  ({risk}{', cut' if item.cut else ''})")
    if len(chosen) > _ROWS_SHOWN:
        echo(f"  … and {len(chosen) - _ROWS_SHOWN} more; --json lists all, --operations chooses")
    total = sum(sizes.values())
    echo(f"{len(chosen)} operations · {total:,} bytes · about {total // 4:,} tokens")
    for problem in imported.refused:
        echo(f"refused: {problem.key}: {problem.reason}")
    for name, scheme in imported.security.items():
        echo(f"security: {name}: {_security_hint(scheme)}")


def _security_hint(scheme: JsonObject) -> str:
    """Say how a scheme is configured."""
    match scheme.get("type"), scheme.get("scheme"), scheme.get("in"):
        case "http", "basic", _:
            return 'headers: {Authorization: "Basic ${secret:NAME}"}'
        case ("http", _, _) | ("oauth2", _, _) | ("openIdConnect", _, _):
            return 'headers: {Authorization: "Bearer ${secret:NAME}"}'
        case "apiKey", _, "query":
            return f'query: {{{scheme.get("name")}: "${{secret:NAME}}"}}'
        case "apiKey", _, "header":
            return f'headers: {{{scheme.get("name")}: "${{secret:NAME}}"}}'
        case _:
            return "not supported; ask the API for a key in a header"


def _write(  # what the entry is made of
    settings: Path, name: str, text: bytes, imported: ApiImport, wanted: Sequence[str], overrides: Path | None
) -> JsonObject:
    """Store the document beside the settings and add the entry. Nothing is overwritten."""
    suffix = "json" if text.lstrip()[:1] == b"{" else "yaml"
    document = settings.parent / "apis" / f"{name}.{suffix}"
    if document.exists():
        raise Rejected("OPENAPI_FILE_EXISTS", f"{document} exists already", "remove it, or choose another --name")
    entry: JsonObject = {"document": f"apis/{name}.{suffix}"}
    if imported.server_url is None:
        entry["base_url"] = "https://…"
    if overrides is not None:
        entry["overrides"] = str(overrides)
    entry["import"] = {"tools": list(wanted)}
    block = yaml.safe_dump({"apis": {name: entry}}, sort_keys=False, allow_unicode=True)
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_bytes(text)
    known = settings.read_text(encoding="utf-8") if settings.exists() else ""
    can_add = not re.search(r"(?m)^[\"']?apis[\"']?\s*:", known) and imported.server_url is not None
    if can_add:
        settings.write_text(f"{known.rstrip()}\n\n{block}" if known.strip() else block, encoding="utf-8")
    return {
        "document": str(document),
        "settings": str(settings) if can_add else None,
        "entry": {name: entry},
        "block": block,
    }


def _show_written(name: str, chosen: Mapping[str, ApiOperation], written: JsonObject, *, as_json: bool) -> None:
    following = f"penstock tool upstream refresh {name}, then penstock tool upstream accept {name} --tools '*'"
    if as_json:
        told = {key: value for key, value in written.items() if key != "block"}
        print_json({"name": name, "operations": list(chosen), **told, "next": following})
        return
    echo(f"{written['document']}: stored")
    if written["settings"] is not None:
        echo(f"{written['settings']}: added apis.{name} with {len(chosen)} operations")
    else:
        echo(f"add this to the settings:\n{written['block']}")
    echo(f"next: {following}")
