"""`penstock config profile list|add|remove|use`: the servers that a person works with, by name.

The file never holds a key, only where it is to be found.
"""

from __future__ import annotations

import shlex
from typing import Annotated

from penstock.app.settings.secrets import (
    CommandReference,
    EnvironmentReference,
    FileReference,
    SecretReference,
    describe_reference,
)
from penstock.base.json import JsonValue
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.targets.profiles import Profile, profiles_path, read_profiles, write_profiles
from penstock.cli.terminal.answers import print_answer
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.client.options import ClientOptions

__all__ = ["add_command", "list_command", "remove_command", "use_command"]

NameArgument = Annotated[str, Argument(metavar="NAME", help="The profile's name.")]


def list_command(*, as_json: JsonOption = False) -> None:
    """List the profiles.

    With --json: file, current and items (each with name, server, key and current); `key` says where the key comes from.
    """

    def work() -> int:
        path = profiles_path()
        profiles = read_profiles(path)
        items: list[JsonValue] = [
            {
                "name": name,
                "server": profile.server,
                "key": None if profile.key is None else describe_reference(profile.key),
                "current": name == profiles.current,
            }
            for name, profile in profiles.by_name.items()
        ]
        if as_json:
            print_json({"file": str(path), "current": profiles.current, "items": items})
        else:
            print_answer({"items": items})
        return 0

    exit_with(work, as_json=as_json)


def add_command(  # noqa: PLR0913  # every option is one the user can give
    name: NameArgument,
    *,
    server: Annotated[str, Option("--server", metavar="URL", help="The address of the server.")],
    key_env: Annotated[
        str | None, Option("--key-env", metavar="NAME", help="The key is in this variable of the environment.")
    ] = None,
    key_file: Annotated[
        str | None, Option("--key-file", metavar="FILE", help="The key is the content of this file.")
    ] = None,
    key_command: Annotated[
        str | None, Option("--key-command", metavar="COMMAND", help="The key is what this program prints.")
    ] = None,
    use: Annotated[bool, Option("--use", help="Use it from now on when no profile is named.")] = False,
    replace: Annotated[bool, Option("--replace", help="Change a profile of that name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add a profile: a server, and where its key comes from.

    Without a key, PENSTOCK_API_KEY counts. The key itself is never written.
    """

    def work() -> int:
        ClientOptions.of(server)
        profile = Profile(server=server, key=_reference(key_env, key_file, key_command))
        path = profiles_path()
        profiles = read_profiles(path).with_profile(name, profile, replaces=replace)
        write_profiles(path, profiles.using(name) if use else profiles)
        return _done({"name": name, "file": str(path)}, f"added {name} to {path}", as_json=as_json)

    exit_with(work, as_json=as_json)


def _reference(name: str | None, file: str | None, command: str | None) -> SecretReference | None:
    if sum(given is not None for given in (name, file, command)) > 1:
        raise UsageError("--key-env, --key-file and --key-command exclude each other; name one")
    if name is not None:
        if not name.isidentifier() or name.startswith("pen_"):
            raise UsageError("--key-env takes the name of a variable, not the key itself")
        return EnvironmentReference(name)
    if file is not None:
        return FileReference(file)
    if command is None:
        return None
    words = shlex.split(command)
    if not words:
        raise UsageError("--key-command is empty; name a program")
    return CommandReference(tuple(words))


def remove_command(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Remove a profile."""

    def work() -> int:
        path = profiles_path()
        write_profiles(path, read_profiles(path).without(name))
        return _done({"name": name, "file": str(path)}, f"removed {name} from {path}", as_json=as_json)

    exit_with(work, as_json=as_json)


def use_command(
    name: Annotated[str | None, Argument(metavar="NAME", help="The profile's name.")] = None,
    *,
    none: Annotated[bool, Option("--none", help="Use no profile: work on a file again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Use a profile whenever a command names no server, profile or file."""

    def work() -> int:
        if (name is None) is not none:
            raise UsageError("name a profile, or say --none")
        path = profiles_path()
        write_profiles(path, read_profiles(path).using(name))
        message = "no profile is used now" if name is None else f"{name} is used now"
        return _done({"current": name, "file": str(path)}, message, as_json=as_json)

    exit_with(work, as_json=as_json)


def _done(answer: dict[str, JsonValue], message: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"ok": True, **answer})
    else:
        echo(message)
    return 0
