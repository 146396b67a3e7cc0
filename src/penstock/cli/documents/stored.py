"""Commands about a stored workflow or a file: `penstock workflow draw refund` and `penstock workflow draw refund.yaml`.

The first argument decides: `-`, a path that exists, or a name with the suffix of a document is a file; every other word
is the name of something stored. A command has the options of both, in panels that say which is for what; an option
that does not go with the argument is refused.

Above it: `tree.commands`, by name. Below it: the commands about files, `operations.commands`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from penstock.cli.declaration import Option
from penstock.cli.operations.commands import call_operation, operation_command
from penstock.cli.terminal.exits import exit_with
from penstock.cli.terminal.values import UsageError
from penstock.client.operations import find_operation

__all__ = ["stored_or_file_command"]

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".gq"})
_FILE_PANEL: Final = "For a file"
_STORED_PANEL: Final = "For what is stored"
_SOURCE: Final = "source"
_ABSENT: Final[tuple[Any, ...]] = (None, False, [], ())


class _Pair(NamedTuple):
    """A command about files beside an operation on something stored."""

    module: str
    attribute: str
    help: str
    metavar: str
    noun: str


_PAIRS: Final = {
    "workflow.draw": _Pair(
        "penstock.cli.documents.draw",
        "draw_command",
        "Draw a workflow.\n\nA file is drawn in Mermaid for documents, or as SVG. Of a stored workflow you get the SVG "
        "picture, and its nodes and routes as a list. Exits with 0 when the drawing was made, 2 when a file cannot be "
        "read or written.",
        "WORKFLOW|FILE",
        "a stored workflow",
    ),
    "workflow.diff": _Pair(
        "penstock.cli.documents.diff",
        "diff_command",
        "Compare two versions of a workflow.\n\nSays what changed, whether it breaks callers, and whether the history "
        "of runs in flight would fit the new version; they always stay with their own. Compare two files, a stored "
        "workflow with a file, or two stored versions. Exits with 0 when the versions are the same or compatible, "
        "and with 2 when a file cannot be read. Exits with 1 when the change is breaking or, between two files, not "
        "known to be safe.",
        "WORKFLOW|FILE",
        "a stored workflow",
    ),
    "workflow.test": _Pair(
        "penstock.cli.documents.test",
        "cases_command",
        "Run the test cases of a workflow.\n\nActivities are mocked and nothing is stored. For files, and folders of "
        "them, this is `penstock test`. Exits with 0 when every case holds, 1 when one does not.",
        "WORKFLOW|FILE",
        "a stored workflow",
    ),
    "workflow.simulate": _Pair(
        "penstock.cli.documents.simulate",
        "simulate_command",
        "Run a workflow dry, with mocked activities.\n\nShows which nodes a run would visit and how it would end. "
        "Nothing is called and nothing is stored. With a file, exits with 0 when the run completes, and with 1 when it "
        "fails or waits for something that you did not give; 2 means that a file or an option cannot be read.",
        "WORKFLOW|FILE",
        "a stored workflow",
    ),
    "graph.queries_validate": _Pair(
        "penstock.cli.graphs.files",
        "validate_queries_command",
        "Check queries against a schema.\n\nChecks files (.gq) against a schema in a file, or a text against the "
        "schema of a stored graph. Every mistake is printed with its place and its code.",
        "GRAPH|FILE",
        "a stored graph",
    ),
}


def is_file_argument(word: str) -> bool:
    """Whether an argument means a file, and not the name of something stored."""
    return word == "-" or Path(word).suffix.lower() in _SUFFIXES or Path(word).exists()


def stored_or_file_command(name: str) -> Callable[..., None]:
    """The command of an operation that also takes files."""
    pair = _PAIRS[name]
    files = getattr(importlib.import_module(pair.module), pair.attribute)
    joined = _Joined(name, pair, files, _parameters(files), _parameters(operation_command(name)))

    def command(**values: Any) -> None:
        joined.call(values)

    signature = inspect.Signature(list(joined.parameters()))
    command.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` looks at first
    command.__annotations__ = {item.name: item.annotation for item in signature.parameters.values()}
    command.__doc__ = pair.help
    return command


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True) if not hasattr(function, "__signature__") else {}
    found = inspect.signature(function).parameters.values()
    return {item.name: item.replace(annotation=hints.get(item.name, item.annotation)) for item in found}


def _flags(parameter: inspect.Parameter) -> tuple[str, ...]:
    """The options of a parameter; none for an argument."""
    _, declared = get_args(parameter.annotation)
    if not isinstance(declared, Option):
        return ()
    return tuple(name for names in declared.all_names(parameter.name) for name in names.split("/"))


def _in_panel(parameter: inspect.Parameter, panel: str | None) -> inspect.Parameter:
    """Put an option under a heading, unless it is under one already."""
    kind, declared = get_args(parameter.annotation)
    default = parameter.default
    if isinstance(declared, Option):
        declared = replace(declared, panel=declared.panel or panel)
        if default is inspect.Parameter.empty:
            # Needed for one of the two only; the command about files says what it lacks.
            kind, default = kind | None, None
    return parameter.replace(annotation=Annotated[kind, declared], default=default, kind=inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class _Joined:
    """The two sides of a command and their parameters."""

    operation: str
    pair: _Pair
    files: Callable[..., None]
    of_files: Mapping[str, inspect.Parameter]
    of_stored: Mapping[str, inspect.Parameter]

    @property
    def subject(self) -> str:
        """The parameter of the operation for the name."""
        return next(iter(self.of_stored))

    @property
    def arguments(self) -> list[str]:
        """The parameters of the command about files that are positional, the first one aside."""
        return [name for name, item in self.of_files.items() if not _flags(item)][1:]

    @property
    def file_argument(self) -> str:
        """The first argument of the command about files."""
        return next(name for name, item in self.of_files.items() if not _flags(item))

    def shared(self) -> dict[str, str]:
        """Options that both sides have: the name on the side of files, and on the other one."""
        flags = {flag: name for name, item in self.of_stored.items() for flag in _flags(item)}
        return {name: flags[flag] for name, item in self.of_files.items() for flag in _flags(item) if flag in flags}

    def parameters(self) -> Iterator[inspect.Parameter]:
        """The parameters of both sides, each once."""
        shared = self.shared()
        subject, first = self.of_stored[self.subject], self.of_files[self.file_argument]
        kind, declared = get_args(first.annotation)
        changed = replace(declared, metavar=self.pair.metavar, help=f"The name of {self.pair.noun}, or a file.")
        yield inspect.Parameter(
            subject.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[_required(kind), changed]
        )
        for name in self.arguments:
            item = self.of_files[name]
            kind, declared = get_args(item.annotation)
            yield item.replace(
                annotation=Annotated[kind | None, declared], default=None, kind=inspect.Parameter.KEYWORD_ONLY
            )
        for name, item in self.of_files.items():
            if _flags(item) and name not in shared:
                yield _in_panel(item, _FILE_PANEL)
        for name, item in self.of_stored.items():
            if name != self.subject:
                yield _in_panel(item, None if name in shared.values() else _STORED_PANEL)

    def call(self, values: dict[str, Any]) -> None:
        """Call the side that the first argument is for."""
        given = values[self.subject]
        words: Sequence[str] = given if isinstance(given, list | tuple) else [given]
        is_file = any(map(is_file_argument, words))

        def check() -> int:
            self._refuse_others(values, words, is_file=is_file)
            return 0

        exit_with(check, as_json=bool(values.get("as_json")))
        if is_file:
            shared = self.shared()
            own = {name: values[shared.get(name, name)] for name in self.of_files if name != self.file_argument}
            self.files(**{self.file_argument: given}, **own)
            return
        own = {name: values[name] for name in self.of_stored if name != self.subject}
        if self.arguments and values[self.arguments[0]] is not None:
            own[_SOURCE] = values[self.arguments[0]]
        call_operation(find_operation(self.operation), {**own, self.subject: words[0]})

    def _refuse_others(self, values: Mapping[str, Any], words: Sequence[str], *, is_file: bool) -> None:
        """Refuse the options of the other side, and several names."""
        shared = self.shared()
        others = self.of_stored if is_file else self.of_files
        named, meant = (self.pair.noun, "a file") if is_file else ("a file", self.pair.noun)
        for name, item in others.items():
            flags = _flags(item)
            if flags and name not in shared and name not in shared.values() and values[name] not in _ABSENT:
                raise UsageError(f"{flags[0]} goes with {named}, and {words[0]} is {meant}")
        if not is_file and len(words) > 1:
            raise UsageError(f"name one workflow: {words[0]} and {words[1]} are not files")


def _required(kind: Any) -> Any:
    """A type without None."""
    if get_origin(kind) is not None and type(None) in get_args(kind):
        return next(item for item in get_args(kind) if item is not type(None))
    return kind
