"""The settings of a command: options that override them, and mistakes shown with their places.

Above it: the commands. Below it: `app.settings`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from penstock.app.settings.formats import carries_credentials
from penstock.app.settings.locations import SECRET_CODE
from penstock.app.settings.sources import DEFAULT_FILE, InvalidSettings, LoadedSettings, load_settings
from penstock.base.lazy_import import lazy_import
from penstock.cli.declaration import Context, Exit, Option, echo
from penstock.cli.terminal.values import UsageError
from penstock.definitions.source.findings import Finding

if TYPE_CHECKING:
    from penstock.cli.terminal import console as terminal
    from penstock.cli.terminal import findings as printing
else:
    printing = lazy_import("penstock.cli.terminal.findings")
    terminal = lazy_import("penstock.cli.terminal.console")

__all__ = [
    "ChosenDatabaseOption",
    "ConfigOption",
    "DatabaseOption",
    "command_settings",
    "print_settings_findings",
]

_MISTAKEN_EXIT = 2

ConfigOption = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help=f"The settings; otherwise {DEFAULT_FILE} in this folder, if there."),
]


def command_settings(
    config: Path | None = None, flags: Mapping[str, Any] | None = None, *, as_json: bool = False
) -> LoadedSettings:
    """The settings of a command; mistakes are shown, and `UsageError` ends the command."""
    try:
        return load_settings(config, flags=flags)
    except InvalidSettings as error:
        if as_json:
            raise
        print_settings_findings(error)
        message = f"the settings have {terminal.count_words(len(error.findings), 'mistake')}; correct them first"
        raise UsageError(message) from None


def print_settings_findings(error: InvalidSettings) -> None:
    """Every mistake with the line it is on, unless the line holds a secret."""
    secret_lines = {
        finding.position.line for finding in error.findings if finding.position and _is_about_secret(finding)
    }
    console = terminal.console_for(sys.stderr)
    for finding in error.findings:
        is_hidden = finding.position is not None and finding.position.line in secret_lines
        printing.print_findings(console, (finding,), label=finding.file or "", text="" if is_hidden else error.text)


def _is_about_secret(finding: Finding) -> bool:
    # A misspelt `apikey` may hold a secret, too.
    return finding.code == SECRET_CODE or carries_credentials(finding.path.rpartition("/")[2])


def _database(context: Context, given: Path) -> Path:
    source = context.get_parameter_source("database")
    if source is not None and source.name != "DEFAULT":
        return given
    try:
        return Path(command_settings().settings.storage.path)
    except UsageError as error:
        echo(f"error: {error}", err=True)
        raise Exit(_MISTAKEN_EXIT) from None


_DATABASE_HELP = "The file that holds the runs; otherwise the one that the settings name (storage.path)."
# For commands that only need to know the file.
DatabaseOption = Annotated[
    Path, Option("--db", metavar="FILE", callback=_database, help=_DATABASE_HELP, show_default=False)
]
# For commands that need more of the settings: the option as it was given, to be merged with the other sources.
ChosenDatabaseOption = Annotated[Path | None, Option("--db", metavar="FILE", help=_DATABASE_HELP)]
