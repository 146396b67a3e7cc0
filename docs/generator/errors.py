"""The page about refusals: every reason code with its status on each wire, read from the tables."""

from collections.abc import Iterator

from docs.generator.markdown import code, page, prose, table
from penstock.cli.terminal.exits import EXIT_CODES
from penstock.client.errors import CLIENT_REASONS
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import REASONS, Reason
from penstock.rest.problems import PROBLEM_SCHEMA

__all__ = ["errors_page"]


def errors_page() -> str:
    """Every reason code."""
    return page("Errors", "`operations/catalogue/reasons.py` and `operations/catalogue/errors.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "A call that is refused says why with a code that stays the same: in the problem document of REST, in the "
        "exception of the [Python client](../guides/python-client.md), in what a command prints with `--json`, and in "
        "the audit trail. Branch on the code, show the text."
    )
    yield "## The problem document"
    properties = PROBLEM_SCHEMA["properties"]
    required = PROBLEM_SCHEMA["required"]
    if isinstance(properties, dict) and isinstance(required, list):
        yield table(
            ["Member (* = always)", "What it is"],
            [
                [code(name) + (" *" if name in required else ""), prose(_words(given))]
                for name, given in properties.items()
            ],
        )
    yield "## Reasons"
    yield (
        "`Status` is that of HTTP, `exit` that of a command, `JSON-RPC` that of MCP. `Class` is the exception in "
        "`penstock.base.errors`; those of the client are its children."
    )
    yield table(
        ["Code", "Meaning", "Class", "Status", "Exit", "JSON-RPC"],
        [_row(name, found) for name, found in REASONS.items()],
    )
    yield "## Reasons of the client"
    yield "These come from the Python client itself, when there is no answer to speak of."
    yield table(["Code", "Meaning"], [[code(name), prose(meaning)] for name, meaning in CLIENT_REASONS.items()])
    yield "## Exit codes"
    yield table(["Exit code", "Meaning"], [[str(number), prose(meaning)] for number, meaning in EXIT_CODES.items()])


def _words(schema: object) -> str:
    return str(schema.get("description", "")) if isinstance(schema, dict) else ""


def _row(name: str, reason: Reason) -> list[str]:
    mapping = mapping_of(reason.kind(name, ""))
    numbers = [str(mapping.status), str(mapping.exit_code), str(mapping.json_rpc)]
    return [code(name), prose(reason.meaning), code(reason.kind.__name__), *numbers]
