"""Findings for people."""

import io

from penstock.cli.terminal.console import Console
from penstock.cli.terminal.findings import print_findings
from penstock.definitions.source.findings import Finding, Position, Severity


def test_a_finding_marks_its_column_in_the_line() -> None:
    finding = Finding(
        code="X", message="wrong", severity=Severity.ERROR, path="/a", position=Position(2, 4), hint="mend it"
    )
    stream = io.StringIO()
    print_findings(Console(stream), (finding,), label="f.yaml", text="one\na: \x1bb\n")
    assert stream.getvalue().splitlines() == [
        "f.yaml:2:4: error X wrong",
        "  2 | a: \N{REPLACEMENT CHARACTER}b",
        "    |    ^",
        "  hint: mend it",
    ]
