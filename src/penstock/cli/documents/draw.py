"""`penstock workflow draw FILE`: a workflow as a picture, in Mermaid for documents or SVG for everything else.

Exit codes: 0 when the picture was made (also of a document with mistakes), 2 when the file cannot be read or written.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Exit, Option, echo
from penstock.cli.documents.reading import exit_unless_readable, print_mistakes
from penstock.cli.terminal.console import console_for, print_problem
from penstock.drawing.mermaid import to_mermaid
from penstock.drawing.svg import to_svg

__all__ = ["DrawingFormat", "draw_command"]


class DrawingFormat(StrEnum):
    """The formats a drawing can have."""

    MERMAID = "mermaid"
    SVG = "svg"


def draw_command(
    file: Annotated[str, Argument(metavar="FILE", help="A workflow file (YAML or JSON), or - for standard input.")],
    *,
    drawing_format: Annotated[
        DrawingFormat | None,
        Option("--format", help="mermaid or svg; follows from the name of the output if left out, else mermaid."),
    ] = None,
    output: Annotated[
        Path | None, Option(("--output", "-o"), help="Write the drawing to this file instead of standard output.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object with the drawing in it.")] = False,
) -> None:
    """Draw a workflow: its nodes, where they lead, and what is inside of them.

    Exits with 0 when the drawing was made, 2 when a file cannot be read or written.
    """
    read = exit_unless_readable(file)
    chosen = drawing_format or _format_for(output)
    drawing = to_svg(read.document) if chosen is DrawingFormat.SVG else to_mermaid(read.document)
    if output is not None:
        _write(output, drawing)
    if as_json:
        report: JsonObject = {**read.about(), "format": str(chosen)}
        report |= {"drawing": drawing} if output is None else {"output": str(output)}
        echo(json.dumps(report, indent=2, ensure_ascii=False))
    elif output is None:
        echo(drawing, nl=False)
    else:
        console_for(sys.stderr).print(f"{output}: written")
    print_mistakes(read, "the drawing shows what could be understood")


def _format_for(output: Path | None) -> DrawingFormat:
    return DrawingFormat.SVG if output is not None and output.suffix.lower() == ".svg" else DrawingFormat.MERMAID


def _write(path: Path, drawing: str) -> None:
    try:
        path.write_text(drawing, encoding="utf-8")
    except OSError as error:
        print_problem(f"{path}: {error.strerror or error}")
        raise Exit(2) from error
