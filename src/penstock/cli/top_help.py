"""`penstock --help` and `--version` from the tree of commands, without Click.

Importing Click takes several times as long as starting Python. The page is the one that the group of all commands
prints: `tests/unit/cli/test_top_help.py` compares them.

Above it: `main`, `application`. Below it: `commands.help_page`, `references`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from penstock.cli.commands.help_page import HelpPage, command_sections, print_page
from penstock.cli.references import CommandRow
from penstock.cli.terminal.console import console_for

__all__ = ["FOOTER", "print_top_help", "top_page"]

FOOTER: Final = (
    "`penstock COMMAND --help` explains a command and shows an example.\n\n"
    "Options: --version, --json, --install-completion, --show-completion, --help."
)
# With it, a shell asks for completions.
_COMPLETE: Final = "_PENSTOCK_COMPLETE"


def print_top_help(arguments: list[str], commands: Mapping[str, CommandRow], summary: str, version: str) -> bool:
    """Print the help or the version, if the command asks for nothing else; return whether it did."""
    if arguments == ["--version"]:
        print(f"penstock {version}")
        return True
    if arguments != ["--help"] or os.environ.get(_COMPLETE):
        return False
    print_page(top_page(commands, summary), console_for(sys.stdout))
    return True


def top_page(commands: Mapping[str, CommandRow], summary: str) -> HelpPage:
    """Return the page of help, with the commands under their headings."""
    usage = "penstock [OPTIONS] COMMAND [ARGS]..."
    return HelpPage(usage, summary, command_sections(commands), footer=FOOTER)
