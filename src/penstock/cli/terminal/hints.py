"""What a command says to do about an error, in the words of the command line.

Hints of operations name operations, as the reference does; here `workflow.list` becomes `penstock workflow list`.

Above it: `exits`, commands that print errors. Below it: `operation_paths`, the reasons, the client's operations.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PenstockError
from penstock.base.lazy_import import lazy_import
from penstock.cli.operation_paths import command_of_operation

if TYPE_CHECKING:
    from penstock.client import errors as client_errors
    from penstock.client import operations
    from penstock.operations.catalogue import reasons
else:
    client_errors = lazy_import("penstock.client.errors")
    operations = lazy_import("penstock.client.operations")
    reasons = lazy_import("penstock.operations.catalogue.reasons")

__all__ = ["command_hint", "in_commands"]

# A server's hint names a header; a user of commands keeps the key elsewhere.
_KEY_HINT: Final = (
    "put the key into PENSTOCK_API_KEY, or name a profile that has one (penstock config profile add --help); "
    "an owner creates one with `penstock key create`"
)
# A name at the end of a sentence counts; a part of an address, a path or a longer name does not.
_NAME: Final = re.compile(r"(?<![\w.:/`-])(`?)([a-z_]+)\.([a-z_]+)(?![\w-]|\.\w)\1")


def command_hint(error: PenstockError) -> str | None:
    """Return what to do about an error: its own hint, or else the remedy of its code."""
    if error.code == "UNAUTHENTICATED":
        return _KEY_HINT
    client_only = client_errors.CLIENT_REASONS.get(error.code)
    hint = reasons.hint_of(error) or (None if client_only is None else client_only.hint)
    return None if hint is None else in_commands(hint)


def in_commands(text: str) -> str:
    """Return the text with commands in place of the names of operations."""
    return _NAME.sub(_command, text)


def _command(found: re.Match[str]) -> str:
    name = f"{found[2]}.{found[3]}"
    command = command_of_operation(name) if name in operations.operation_table() else None
    return found[0] if command is None else f"`penstock {command}`"
