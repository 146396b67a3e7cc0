"""Completion of command lines in bash, zsh and fish: the script of a shell, and where it is installed.

The script asks this program what fits, through variables of the environment; Click answers. Installing writes the
script to a file, and names it once in the settings of the shell, if the shell does not look there by itself.

Above it: the options of the whole command line. Below it: Click, files of the user.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import click
from click.shell_completion import get_completion_class

from penstock.cli.declaration import Context, Exit, echo

__all__ = ["SHELLS", "Installed", "Shell", "completion_options", "completion_script", "install_script"]

Shell: TypeAlias = Literal["bash", "zsh", "fish"]
SHELLS: Final[tuple[Shell, ...]] = get_args(Shell)
_OWN: Final = "auto"
# zsh has the function that the script calls only after its completion system was loaded.
_LOAD_ZSH: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


@dataclass(frozen=True, slots=True)
class Installed:
    """What installing wrote: the script, and the settings of the shell, if a line was added to them."""

    script: Path
    settings: Path | None


def completion_script(command: click.Command, program: str, shell: Shell) -> str:
    """Return the script with which a shell completes calls of a program."""
    kind = get_completion_class(shell)
    if kind is None:
        raise LookupError(shell)
    return kind(command, {}, program, f"_{program.upper().replace('-', '_')}_COMPLETE").source()


def install_script(script: str, program: str, shell: Shell, environment: Mapping[str, str]) -> Installed:
    """Write a script to where the shell finds it."""
    home = Path(environment.get("HOME") or Path.home())
    if shell == "fish":
        place = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions"
        return Installed(_write_script(place / f"{program}.fish", script), None)
    place = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / program
    file = _write_script(place / f"completion.{shell}", script)
    load = f"source {shlex.quote(str(file))}"
    if shell == "bash":
        return Installed(file, _with_line(home / ".bashrc", load))
    settings = Path(environment.get("ZDOTDIR") or home) / ".zshrc"
    return Installed(file, _with_line(settings, f"{_LOAD_ZSH}; {load}"))


def completion_options(program: str) -> list[click.Parameter]:
    """Return the two options of the whole command line."""

    def show(ctx: Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            echo(completion_script(ctx.command, program, _choose_shell(ctx, option, value)))
            raise Exit

    def install(ctx: Context, option: click.Parameter, value: str | None) -> None:
        if value is None:
            return
        shell = _choose_shell(ctx, option, value)
        try:
            done = install_script(completion_script(ctx.command, program, shell), program, shell, os.environ)
        except OSError as error:
            raise click.ClickException(f"completion cannot be installed: {error}") from error
        loads = "" if done.settings is None else f"; {done.settings} loads it"
        echo(f"{shell} completion installed in {done.script}{loads}. Open a new terminal to use it.")
        raise Exit

    texts = {
        "--install-completion": ("Install completion for your shell.", install),
        "--show-completion": ("Print the completion script for your shell.", show),
    }
    return [
        click.Option(
            [name],
            is_flag=False,
            flag_value=_OWN,
            type=click.Choice([*SHELLS, _OWN]),
            metavar=f"[{'|'.join(SHELLS)}]",
            expose_value=False,
            is_eager=True,
            callback=callback,
            help=text,
        )
        for name, (text, callback) in texts.items()
    ]


def _choose_shell(ctx: Context, option: click.Parameter, value: Any) -> Shell:
    """Return the shell that was named, the one that started this process, or the one that the user logs in with."""
    login = Path(os.environ.get("SHELL", "")).name
    for named in (_parent_name(), login) if value == _OWN else (value,):
        for shell in SHELLS:
            if shell == named:
                return shell
    message = f"SHELL names {login!r}" if login else "SHELL is not set"
    raise click.BadParameter(f"{message}; name your shell: {', '.join(SHELLS)}", ctx, option)


def _parent_name() -> str:
    """Return the name of the process that started this one; nothing on systems that do not say it in a file."""
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _write_script(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _with_line(file: Path, line: str) -> Path:
    """Add a line to the end of a file, unless it is there."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line not in text.splitlines():
        gap = "" if not text or text.endswith("\n") else "\n"
        with file.open("a", encoding="utf-8") as out:
            out.write(f"{gap}{line}\n")
    return file
