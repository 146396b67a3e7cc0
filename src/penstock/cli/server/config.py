"""`penstock config show|validate|schema`: the settings as they are, whether they are right, and what they may be.

Exit codes: 0 when all is well, 1 when `validate` finds mistakes, 2 when `show` cannot show because of them.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

from penstock.app.executors.secret_checks import SecretProblem, secret_problems
from penstock.app.settings.schema import settings_schema
from penstock.app.settings.sources import InvalidSettings, LoadedSettings, load_settings
from penstock.app.settings.view import settings_rows, settings_view
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.declaration import Exit, Option, echo
from penstock.cli.targets.settings import ConfigOption, command_settings, print_settings_findings
from penstock.cli.terminal.console import Console, console_for, count_words
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, print_json
from penstock.cli.terminal.styled_text import Text

__all__ = ["schema_command", "show_command", "validate_command"]


def show_command(
    *,
    config: ConfigOption = None,
    origin: Annotated[bool, Option("--origin", help="Also say where each value comes from.")] = False,
    changed: Annotated[bool, Option("--changed", help="Only what is not at its default.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show every setting in effect: defaults < penstock.yaml < environment.

    Secrets are shown as the place they come from, never as values.

    With --json: file, settings (nested as in the file), origins (by key; with --origin) and ignored (variables that
    begin with PENSTOCK_ and set nothing). Exits with 2 when the settings have mistakes.
    """

    async def work() -> int:
        loaded = command_settings(config, as_json=as_json)
        if as_json:
            print_json(_as_json(loaded, origin=origin, changed=changed))
        else:
            _print(loaded, origin=origin, changed=changed)
        return 0

    exit_with_async(work, as_json=as_json)


def validate_command(
    *,
    config: ConfigOption = None,
    secrets: Annotated[
        bool, Option("--secrets", help="Also read every secret, and name those that cannot be read.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find every mistake in penstock.yaml and in the environment, each with a hint.

    With --json: ok, file, findings (each with code, message, path, hint, file, line, column), secrets (with --secrets:
    each with name, message and severity) and ignored. Exits with 0 when all is well, 1 when there are mistakes.
    """
    try:
        loaded = load_settings(config)
    except InvalidSettings as error:
        if as_json:
            print_json({"ok": False, "file": error.file, **error.details})
        else:
            print_settings_findings(error)
            console_for(sys.stderr).print(count_words(len(error.findings), "mistake"))
        raise Exit(1) from None
    problems = list(secret_problems(loaded.settings)) if secrets else []
    is_ok = all(problem.is_warning for problem in problems)
    if as_json:
        listed: list[JsonValue] = [problem.to_json() for problem in problems]
        report: JsonObject = {"ok": is_ok, "file": loaded.file, "findings": [], "ignored": list(loaded.ignored)}
        print_json({**report, "secrets": listed} if secrets else report)
    else:
        _print_verdict(loaded, problems, is_ok=is_ok)
    if not is_ok:
        raise Exit(1)


def schema_command() -> None:
    """Print the JSON Schema of penstock.yaml.

    Point your editor at it to get completion and checks while you type.
    """
    echo(json.dumps(settings_schema(), indent=2, ensure_ascii=False))


def _as_json(loaded: LoadedSettings, *, origin: bool, changed: bool) -> JsonObject:
    origins = {path: found for path, found in loaded.origins.items() if not changed or found.source != "default"}
    text: JsonObject = {"file": loaded.file, "settings": settings_view(loaded.settings, origins)}
    if origin:
        text["origins"] = {path: str(found) for path, found in origins.items()}
    return {**text, "ignored": list(loaded.ignored)}


def _print(loaded: LoadedSettings, *, origin: bool, changed: bool) -> None:
    console = console_for(sys.stdout)
    rows = [
        (setting.path, clean(_value_text(value)), loaded.origins[setting.path])
        for setting, value in settings_rows(loaded.settings)
        if not changed or loaded.origins[setting.path].source != "default"
    ]
    path_width = max((len(path) for path, _, _ in rows), default=0)
    value_width = min(max((len(value) for _, value, _ in rows), default=0), 40)
    for path, value, found in rows:
        is_default = found.source == "default"
        line = Text(f"{path:<{path_width}}  ", style="dim" if is_default else "")
        line.append(f"{value:<{value_width}}" if origin else value, style="" if is_default else "bold")
        if origin:
            line.append(f"  {clean(str(found))}", style="dim" if is_default else "cyan")
        line.rstrip()
        console.print(line)
    _print_ignored(console, loaded)


def _value_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_verdict(loaded: LoadedSettings, problems: list[SecretProblem], *, is_ok: bool) -> None:
    console = console_for(sys.stdout)
    for problem in problems:
        severity = ("warning", "bold yellow") if problem.is_warning else ("error", "bold red")
        console.print(Text.assemble((clean(problem.name), "bold"), ": ", severity, f" {clean(problem.message)}"))
    _print_ignored(console, loaded)
    if is_ok:
        set_keys = sum(found.source != "default" for found in loaded.origins.values())
        text = f" {clean(loaded.file or 'no file')}: {count_words(set_keys, 'setting')} set"
        console.print(Text.assemble(("ok", "green"), text))


def _print_ignored(console: Console, loaded: LoadedSettings) -> None:
    for name in loaded.ignored:
        console.print(Text(f"the variable {clean(name)} sets nothing", style="yellow"))
