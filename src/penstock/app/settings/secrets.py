"""Secrets in settings: never values, only references to them.

    {env: STRIPE_KEY}    {file: /run/secrets/stripe}    {command: [pass, show, stripe]}

Above it: the settings name secrets with these types, `secret_sources` finds the values. Below it: nothing. It reads no
variable and no file, so that reading settings cannot reveal anything.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias, assert_never

from msgspec import Struct

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import suggestion

__all__ = [
    "REFERENCE_HINT",
    "CommandReference",
    "EnvironmentReference",
    "FileReference",
    "ReferenceProblem",
    "SecretReference",
    "anchored_reference",
    "describe_reference",
    "read_reference",
    "reference_document",
]

REFERENCE_HINT = "refer to it with {env: NAME}, {file: PATH} or {command: [PROGRAM, ARGUMENT, …]}"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WAYS = ("env", "file", "command")


class EnvironmentReference(Struct, frozen=True):
    """The value is in a variable of the environment."""

    name: str


class FileReference(Struct, frozen=True):
    """The value is the content of a file, without the line end after its last line."""

    path: str


class CommandReference(Struct, frozen=True):
    """The value is what a program prints, without the line end after its last line."""

    command: tuple[str, ...]


SecretReference: TypeAlias = EnvironmentReference | FileReference | CommandReference


class ReferenceProblem(Struct, frozen=True):
    """Why a value is not a reference. The text shows nothing of the given value."""

    message: str
    hint: str = REFERENCE_HINT


def read_reference(value: JsonValue) -> SecretReference | ReferenceProblem:
    """A reference as it is written in settings."""
    if not isinstance(value, dict):
        return ReferenceProblem("is a secret: settings must not contain its value")
    if len(value) != 1:
        return ReferenceProblem("must have exactly one of env, file and command")
    [(way, given)] = value.items()
    if way == "env":
        if isinstance(given, str) and _VARIABLE.fullmatch(given):
            return EnvironmentReference(given)
        return ReferenceProblem("`env` must be the name of a variable")
    if way == "file":
        return FileReference(given) if isinstance(given, str) and given else ReferenceProblem("`file` must be a path")
    if way == "command":
        words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
        if isinstance(given, list) and words and len(words) == len(given) and words[0]:
            return CommandReference(tuple(words))
        return ReferenceProblem("`command` must be a list of texts that begins with a program; no shell is involved")
    return ReferenceProblem("must have one of env, file and command", suggestion(way, _WAYS) or REFERENCE_HINT)


def reference_document(reference: SecretReference) -> JsonObject:
    """A reference as `read_reference` reads it."""
    match reference:
        case EnvironmentReference(name=name):
            return {"env": name}
        case FileReference(path=path):
            return {"file": path}
        case CommandReference(command=command):
            return {"command": list(command)}
        case _:
            assert_never(reference)


def describe_reference(reference: SecretReference) -> str:
    """Where a secret comes from, in a few words. Only the program of a command: its arguments may reveal too much."""
    match reference:
        case EnvironmentReference(name=name):
            return f"env {name}"
        case FileReference(path=path):
            return f"file {path}"
        case CommandReference(command=command):
            return f"command {command[0]}"
        case _:
            assert_never(reference)


def anchored_reference(reference: SecretReference, folder: str | None) -> SecretReference:
    """A reference whose file is relative to the folder of the settings that name it."""
    if folder is None or not isinstance(reference, FileReference):
        return reference
    return FileReference(str(Path(folder) / reference.path))
