"""The page about refusals: every reason code with its status on each wire, read from the tables."""

from collections.abc import Iterator, Mapping

from docs.generator.error_examples import Example, every_example
from docs.generator.markdown import code, page, prose, table
from penstock.base.errors import Reason
from penstock.cli.terminal.exits import EXIT_CODES
from penstock.cli.terminal.hints import command_hint
from penstock.client.errors import CLIENT_REASONS
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import LOCAL_FAMILIES, REASON_FAMILIES
from penstock.rest.problems import PROBLEM_SCHEMA

__all__ = ["errors_page"]


def errors_page() -> str:
    """Every reason code."""
    return page("Errors", "`operations/catalogue/reasons` and `operations/catalogue/errors.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "Every refusal has a code, a message with the fact, and a hint with what to do. You find all three in the "
        "problem document of REST, in the result of an MCP tool, in the exception of the "
        "[Python client](../guides/python-client.md), and in the output of a command. Codes do not change between "
        "versions; messages and hints may. Branch on the code, and show the text."
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
        "`Status` is the HTTP status, `exit` the exit code of a command, `JSON-RPC` the code over MCP. `Class` is the "
        "exception in `penstock.base.errors`; those of the client derive from it. A call may have a more specific hint "
        "than the remedy here. Below each table you see an example of each code as a command prints it; REST and MCP "
        "name operations where a command names commands. Words in capitals stand for values."
    )
    for title, family in REASON_FAMILIES.items():
        yield from _family(title, family)
    yield "## Reasons of single processes"
    yield "Only a process that starts, a command or a page of the console reports these."
    for title, family in LOCAL_FAMILIES.items():
        yield from _family(title, family)
    yield "## Reasons of the client"
    yield "These come from the Python client and the commands that use it, when there is no usable response."
    yield table(["Code", "Meaning", "What to do"], [_row(name, found)[:3] for name, found in CLIENT_REASONS.items()])
    yield from _examples(CLIENT_REASONS)
    yield "## Exit codes"
    yield table(["Exit code", "Meaning"], [[str(number), prose(meaning)] for number, meaning in EXIT_CODES.items()])


def _words(schema: object) -> str:
    return str(schema.get("description", "")) if isinstance(schema, dict) else ""


def _family(title: str, family: Mapping[str, Reason]) -> Iterator[str]:
    yield f"### {title}"
    yield table(
        ["Code", "Meaning", "What to do", "Class", "Status", "Exit", "JSON-RPC"],
        [_row(name, found) for name, found in family.items()],
    )
    yield from _examples(family)


def _examples(family: Mapping[str, Reason]) -> Iterator[str]:
    """What a command prints for each code."""
    examples = every_example()
    lines = [
        line for name, reason in family.items() if name in examples for line in _printed(name, reason, examples[name])
    ]
    if lines:
        yield "\n".join(["```text", *lines, "```"])


def _printed(name: str, reason: Reason, example: Example) -> Iterator[str]:
    error = reason.kind(name, example.message, example.hint)
    yield f"{name}: {error.message}"
    yield f"  hint: {command_hint(error)}"


def _row(name: str, reason: Reason) -> list[str]:
    mapping = mapping_of(reason.kind(name, ""))
    numbers = [str(mapping.status), str(mapping.exit_code), str(mapping.json_rpc)]
    return [code(name), prose(reason.meaning), prose(reason.remedy), code(reason.kind.__name__), *numbers]
