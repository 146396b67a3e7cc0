"""Groups of commands. A command is imported when it is called, so `penstock --help` and `penstock serve` pay for none.

The commands of a group are rows of `tree.commands`. Help and completion in a shell show the rows and import no command;
a test compares the sentence of each row with the first one of the command's own help.

Above it: `application`, `mcp.command`. Below it: `tree`, `commands`, Click.
"""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from penstock.base.lazy_import import lazy_import
from penstock.cli.commands.command import FunctionCommand, render_help, run_main
from penstock.cli.commands.help_page import command_sections
from penstock.cli.commands.parameters import read_signature
from penstock.cli.declaration import Context, echo
from penstock.cli.references import CommandGroup, CommandRow
from penstock.cli.tree.commands import commands_below
from penstock.cli.tree.old_spellings import find_new_spelling

if TYPE_CHECKING:
    from penstock.cli.operations import examples
    from penstock.cli.tree import search
else:
    examples = lazy_import("penstock.cli.operations.examples")
    search = lazy_import("penstock.cli.tree.search")

__all__ = ["LazyGroup", "build_command", "load_command"]


class LazyGroup(click.Group):
    """The group with the commands below a path. With a function, it does something by itself, too, and has its help."""

    def __init__(
        self,
        path: str,
        help_text: str | None = None,
        *,
        function: Callable[..., None] | None = None,
        params: list[click.Parameter] | None = None,
        footer: str = "",
        rows: Callable[[str], Mapping[str, CommandRow]] = commands_below,
    ) -> None:
        signature = None if function is None else read_signature(function)
        self.function = function
        self.path = path
        self.footer = footer
        self.rows = dict(rows(path))
        self._loaded: dict[str, click.Command] = {}
        super().__init__(
            path.rpartition(" ")[2] or None,
            help=help_text or inspect.getdoc(function),
            callback=None if signature is None else click.pass_context(signature.call),
            params=[*(params or ()), *(() if signature is None else signature.parameters)],
            invoke_without_command=function is not None,
            no_args_is_help=function is None,
        )

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all commands, in the order of the rows."""
        return list(self.rows)

    def get_command(self, ctx: Context | None, cmd_name: str) -> click.Command | None:
        """Import a command. Underscores in its name are taken for dashes."""
        name = cmd_name if cmd_name in self.rows else cmd_name.replace("_", "-")
        if name not in self.rows:
            return None
        if name not in self._loaded:
            self._loaded[name] = load_command(f"{self.path} {name}".strip(), self.rows[name])
        return self._loaded[name]

    def all_commands(self) -> Iterator[tuple[str, click.Command]]:
        """Import every command, and return it with its name."""
        for name in self.rows:
            if (command := self.get_command(None, name)) is not None:
                yield name, command

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that a line names, by its present or an old spelling; name the nearest one if none is."""
        words = args if self.path else _follow_renaming(ctx, args)
        is_option = words[0].startswith("-")
        if self.get_command(ctx, words[0]) is None and not is_option and not ctx.resilient_parsing:
            raise click.UsageError(search.refuse_unknown(self.path, words), ctx)
        return super().resolve_command(ctx, words)

    def format_help(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Write the page of help."""
        formatter.write(render_help(ctx, more=command_sections(self.rows), footer=self.footer))

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with what was typed."""
        found = [
            CompletionItem(name, help=row.help)
            for name, row in self.rows.items()
            if name.startswith(incomplete) and not row.hidden
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command of the group, and end the process."""
        return run_main(super().main, *args, **settings)


def load_command(path: str, row: CommandRow) -> click.Command:
    """Import a command and build it; `path` has its words after `penstock`."""
    name = path.rpartition(" ")[2]
    if isinstance(row, CommandGroup):
        target = getattr(_import_module(row.module), row.attribute) if row.module else LazyGroup(path, row.help)
        command = build_command(name, target)
    else:
        found = getattr(_import_module(row.module), row.attribute)
        command = FunctionCommand(
            name, found if row.argument is None else found(row.argument), example=lambda: examples.example_of(path, row)
        )
    command.hidden = row.hidden
    return command


def build_command(name: str, target: Any) -> click.Command:
    """Return the command of a function; a group is one already."""
    return target if isinstance(target, click.Command) else FunctionCommand(name, target)


def _follow_renaming(ctx: Context, words: list[str]) -> list[str]:
    """The words of a command in their present spelling; an old one is answered with a line on standard error."""
    renamed = find_new_spelling(words)
    if renamed is None:
        return words
    if not ctx.resilient_parsing:  # a shell that completes reads no hints
        echo(renamed.hint(), err=True)
    return renamed.words


def _import_module(module: str) -> ModuleType:
    """Import a module with garbage collection off: an import makes no garbage, and looking for it takes time."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        # Imported objects stay for good, so later collections can skip them too.
        gc.freeze()
        gc.enable()
