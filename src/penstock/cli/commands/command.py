"""A function as a command of Click: its help, and how a mistake in a call of it is reported.

Above it: `group`. Below it: `parameters`, `help_page`, Click.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from penstock.cli.commands.help_page import HelpPage, Row, Section, help_lines
from penstock.cli.commands.parameters import ClickArgument, ClickOption, read_signature
from penstock.cli.declaration import Context, echo
from penstock.cli.terminal.console import console_for, print_problem

__all__ = [
    "FunctionCommand",
    "WithTrailingArguments",
    "render_help",
    "run_main",
    "trailing_arguments",
]

_INTERRUPTED = 130
_TRAILING = "penstock.trailing"


@dataclass(frozen=True, slots=True)
class WithTrailingArguments:
    """A function whose arguments after `--` are a command of their own; `trailing_arguments` gives them."""

    function: Callable[..., None]


def trailing_arguments(ctx: Context) -> tuple[str, ...]:
    """Return the arguments that stood after `--`."""
    found: tuple[str, ...] = ctx.meta.get(_TRAILING, ())
    return found


class FunctionCommand(click.Command):
    """A command that calls a function, which declares its parameters."""

    def __init__(
        self,
        name: str,
        target: Callable[..., None] | WithTrailingArguments,
        *,
        example: Callable[[], str] | None = None,
    ) -> None:
        self.example = example
        self.takes_trailing = isinstance(target, WithTrailingArguments)
        self.function = target.function if isinstance(target, WithTrailingArguments) else target
        signature = read_signature(self.function)
        super().__init__(
            name,
            callback=click.pass_context(signature.call),
            params=list(signature.parameters),
            help=inspect.getdoc(self.function),
        )

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Keep what stands after `--` apart, if the function wants that."""
        if self.takes_trailing and "--" in args:
            at = args.index("--")
            ctx.meta[_TRAILING] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Return the words of the line of usage."""
        return [*super().collect_usage_pieces(ctx), *(["[-- COMMAND ...]"] if self.takes_trailing else [])]

    def format_help(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Write the page of help."""
        formatter.write(render_help(ctx, example=self.example() if self.example is not None else ""))

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command, and end the process."""
        return run_main(super().main, *args, **settings)


def _usage_of(ctx: Context) -> str:
    """Return how a command is called."""
    return " ".join([ctx.command_path, *ctx.command.collect_usage_pieces(ctx)])


def _option_sections(ctx: Context) -> list[Section]:
    """Return the arguments and options of a command, under their headings."""
    sections: dict[str, list[Row]] = {"Arguments": [], "Options": []}
    for parameter in ctx.command.get_params(ctx):
        if isinstance(parameter, ClickArgument):
            sections["Arguments"].append(
                Row(parameter.make_metavar(ctx), parameter.text, note=_describe_default(parameter.default_note))
            )
        elif isinstance(parameter, click.Option) and not parameter.hidden:
            heading = parameter.panel if isinstance(parameter, ClickOption) else None
            sections.setdefault(heading or "Options", []).append(_option_row(ctx, parameter))
    return [Section(heading, rows) for heading, rows in sections.items()]


def _option_row(ctx: Context, option: click.Option) -> Row:
    # Short names come first, as everywhere.
    names = sorted(option.opts, key=lambda name: name.startswith("--"))
    label = ", ".join(names) + (f" / {', '.join(option.secondary_opts)}" if option.secondary_opts else "")
    if not isinstance(option, ClickOption):
        return Row(label, option.help or "", option.metavar or "")
    note = "required" if option.required else _describe_default(option.default_note)
    return Row(label, option.help or "", option.value_name(ctx), note)


def _describe_default(note: str | None) -> str:
    return "" if note is None else f"default: {note}"


def render_help(ctx: Context, *, more: Sequence[Section] = (), example: str = "", footer: str = "") -> str:
    """Return the page of a command as standard output takes it, with more lists and an example at its end.

    A footer stands in place of the list of options.
    """
    console = console_for(sys.stdout)
    text = inspect.cleandoc(ctx.command.help or "")
    page = HelpPage(_usage_of(ctx), text, (*([] if footer else _option_sections(ctx)), *more), example, footer)
    return "".join(f"{console.codes_of(line)}\n" for line in help_lines(page, console.width))


def run_main(
    main: Callable[..., Any], args: Sequence[str] | None = None, prog_name: str | None = None, **settings: Any
) -> Any:
    """Run `main` of a command of Click; end with our exit codes, and report mistakes as all other problems."""
    if settings.pop("standalone_mode", True) is False:
        return main(args, prog_name, standalone_mode=False, **settings)
    # Help comes with its styles already; Click would remove them again.
    settings.setdefault("color", console_for(sys.stdout).has_styles)
    try:
        code = main(args, prog_name, standalone_mode=False, **settings)
    except click.ClickException as mistake:
        _report_mistake(mistake)
        code = mistake.exit_code
    except click.Abort:
        code = _INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _report_mistake(mistake: click.ClickException) -> None:
    """Say on standard error what is wrong with a command line, and where its help is."""
    if isinstance(mistake, click.exceptions.NoArgsIsHelpError):
        echo(mistake.format_message(), err=True, color=True)
        return
    ctx = mistake.ctx if isinstance(mistake, click.UsageError) else None
    lines = [mistake.format_message()]
    if ctx is not None:
        lines.append(f"  usage: {_usage_of(ctx)}")
        lines.append(f"  hint: run `{ctx.command_path} --help` to see more")
    print_problem("\n".join(lines))
