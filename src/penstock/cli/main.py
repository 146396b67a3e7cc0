"""The `penstock` command, whose commands are imported when they are called.

`penstock` alone says where you are, and `penstock --help` is printed from the tree of commands; neither needs Click.
Everything else goes to `application`. Exit codes mean the same everywhere; `terminal.exits` lists them.

Above it: the script of the package. Below it: `tree.commands`, `top_help`; `application` and `overview` are
imported when they are needed.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

from penstock import __version__
from penstock.cli.top_help import print_top_help
from penstock.cli.tree.commands import commands_below

__all__ = ["PROGRAM", "SUMMARY", "main"]

_APPLICATION = "penstock.cli.application"
_OVERVIEW = "penstock.cli.overview.command"
# Set by a shell that asks for completions.
_COMPLETION = "_PENSTOCK_COMPLETE"

PROGRAM = "penstock"
SUMMARY = "Workflows as tools that an assistant can safely call."


def main() -> None:
    """Run the command line; the entry point of the package."""
    # Commands report how long they took to start. They count from here, so that their own imports are included.
    began = time.perf_counter()
    arguments = sys.argv[1:]
    if arguments in ([], ["--json"]) and _COMPLETION not in os.environ:
        importlib.import_module(_OVERVIEW).print_overview(as_json=bool(arguments))
    elif not print_top_help(arguments, commands_below(""), SUMMARY, __version__):
        importlib.import_module(_APPLICATION).app(obj=began)


def __getattr__(name: str) -> Any:
    """Give out `app`, the group of all commands, to programs that need it; the command line may not."""
    if name == "app":
        return importlib.import_module(_APPLICATION).app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
