"""`penstock coverage`: proof that nothing is missing on a surface or in the documentation.

Exit codes: 0 when all is there, 1 when something is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.coverage.surfaces import SURFACES, Coverage, surface_coverage
from penstock.cli.terminal.endings import finish, print_json
from penstock.cli.terminal.report import console_for

__all__ = ["coverage_command"]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def coverage_command(
    *,
    surfaces: Annotated[
        bool, typer.Option("--surfaces", help="Look at the surfaces; there is nothing else to look at yet.")
    ] = True,
    documentation: Annotated[
        Path | None,
        typer.Option("--docs", metavar="DIR", help="The documentation; otherwise docs in this folder, if it is there."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that every operation is reachable on every surface, and that all of it is documented.

    With --json: ok, operations, surfaces, routes, documented (how many of each kind; null without a folder),
    excluded (each with surface, operation and reason) and uncovered. Exits with 1 when something is uncovered.
    """

    def work() -> int:
        folder = documentation or Path("docs")
        found = surface_coverage(folder if documentation is not None or (folder / "reference").is_dir() else None)
        if as_json:
            print_json(found.to_json())
        else:
            _print(found)
        return 1 if found.uncovered else 0

    finish(work, as_json=as_json)


def _print(found: Coverage) -> None:
    console = console_for(sys.stdout)
    for problem in found.uncovered:
        console.print(Text.assemble(("missing", "bold red"), f" {problem}"))
    for item in found.excluded:
        if isinstance(item, dict):
            console.print(Text(f"excluded {item['surface']}: {item['operation']}: {item['reason']}", style="dim"))
    told = f"{found.operations} operations on {', '.join(SURFACES)}; {found.routes} routes"
    if found.documented is None:
        told += "; no documentation here"
    else:
        told += "; documented: " + ", ".join(f"{count} {what}" for what, count in found.documented.items())
    console.print(Text.assemble(("ok ", "green") if not found.uncovered else ("incomplete ", "bold red"), told))
