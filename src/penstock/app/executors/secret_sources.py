"""The values of secrets that settings refer to: variables, files, and the output of programs.

    resolve_secret(EnvironmentReference("STRIPE_KEY"))
    ReferenceSecrets(settings.secrets)("STRIPE")        # as the router asks for secrets

Above it: `executors.configured`. Below it: the operating system. No value appears in a message, a log line or a printed
object. A value is read each time, except the output of a program, which is cached for a while.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import assert_never

from penstock.app.settings.secrets import (
    CommandReference,
    EnvironmentReference,
    FileReference,
    SecretReference,
    describe_reference,
)
from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.definitions.jq.templates import SECRET_REFERENCE
from penstock.governance.secret_hosts import allowed_hosts
from penstock.runtime.activities.routing import hosts_of
from penstock.runtime.file_trust import find_file_risk

__all__ = ["ReferenceSecrets", "bound_hosts", "fill_text", "private_texts", "resolve_secret"]

_LOGGER = logging.getLogger("penstock.secrets")
_warned: set[str] = set()


def _log_once(warning: str) -> None:
    if warning not in _warned:
        _warned.add(warning)
        _LOGGER.warning("%s", warning)


def resolve_secret(
    reference: SecretReference,
    environment: Mapping[str, str] | None = None,
    warn: Callable[[str], None] = _log_once,
) -> str:
    """Return the value of a secret.

    Raises `Unavailable` with the reason if it has none. May block while a command runs.

    `warn` is called for a file that everybody can read.
    """
    match reference:
        case EnvironmentReference(name=name):
            value = (os.environ if environment is None else environment).get(name)
            if not value:
                raise _unavailable(reference, "the variable is not set", f"set {name} for this process")
            return value
        case FileReference(path=path):
            value = _from_file(reference, path)
            warning = _file_warning(path)
            if warning is not None:
                warn(warning)
            return value
        case CommandReference(command=command):
            return _from_command(reference, command)
        case _:
            assert_never(reference)


class ReferenceSecrets:
    """Secrets by name, resolved through references. A name that is not listed is unknown."""

    def __init__(
        self,
        references: Mapping[str, SecretReference],
        environment: Mapping[str, str] | None = None,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._references = references
        self._environment = environment
        self._now_seconds = now_seconds
        self._kept: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()

    @property
    def may_block(self) -> bool:
        """True if a lookup may start a program."""
        return any(isinstance(reference, CommandReference) for reference in self._references.values())

    def __call__(self, name: str) -> str | None:
        """The value of a secret; None for an unknown name and for a variable that is not set."""
        reference = self._references.get(name)
        if reference is None:
            return None
        if isinstance(reference, CommandReference):
            with self._lock:  # activities wait for one program instead of starting several
                return self._from_program(name, reference)
        try:
            return resolve_secret(reference, self._environment)
        except Unavailable:
            if isinstance(reference, EnvironmentReference):
                return None
            raise

    def __repr__(self) -> str:
        return f"ReferenceSecrets({', '.join(self._references)})"

    def _from_program(self, name: str, reference: CommandReference) -> str:
        kept = self._kept.get(name)
        now = self._now_seconds()
        if kept is not None and now < kept[0]:
            return kept[1]
        value = resolve_secret(reference, self._environment)
        self._kept[name] = (now + limits.SECRET_COMMAND_KEPT_SECONDS, value)
        return value


def fill_text(text: str, secrets: Callable[[str], str | None]) -> str:
    """A text of the settings with each `${secret:NAME}` replaced by its value."""

    def value_of(match: re.Match[str]) -> str:
        value = secrets(match[1])
        if value is None:
            hint = f"list it in `secrets`, or set PENSTOCK_SECRET_{match[1]}"
            raise Unavailable("SECRET_NOT_SET", f"the secret {match[1]} is not set", hint)
        return value

    return SECRET_REFERENCE.sub(value_of, text)


def private_texts(given: Mapping[str, str | SecretReference], secrets: Callable[[str], str | None]) -> dict[str, str]:
    """Headers or variables with all secrets filled in. They must not be logged or stored."""
    return {
        name: fill_text(value, secrets) if isinstance(value, str) else resolve_secret(value)
        for name, value in given.items()
    }


def bound_hosts(given: Iterable[str | SecretReference], secrets: Callable[[str], str | None]) -> tuple[str, ...] | None:
    """The hosts to which texts may be sent with the secrets that they name; None if none of these is bound."""
    names = [name for text in given if isinstance(text, str) for name in SECRET_REFERENCE.findall(text)]
    return allowed_hosts(names, {name: hosts_of(secrets, name) for name in names})


def _from_file(reference: FileReference, path: str) -> str:
    if (risk := find_file_risk(Path(path), secret=True)) is not None:
        raise _unavailable(reference, risk.problem, risk.advice)
    try:
        with Path(path).open("rb") as file:
            data = file.read(limits.SECRET_BYTES_MAX + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise _unavailable(reference, f"the file cannot be read: {why}", "check the path and who may read it") from None
    return _text(reference, data)


def _from_command(reference: CommandReference, command: tuple[str, ...]) -> str:
    seconds = limits.SECRET_COMMAND_SECONDS_MAX
    try:
        # The program's standard error is not captured: it may ask a person for something.
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise _unavailable(reference, f"it did not end within {seconds:g} s", "run it by hand to see why") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise _unavailable(reference, f"it cannot be started: {why}", "check the name of the program") from None
    if finished.returncode != 0:
        raise _unavailable(reference, f"it ended with {finished.returncode}", "run it by hand to see why")
    return _text(reference, finished.stdout)


def _text(reference: SecretReference, data: bytes) -> str:
    if len(data) > limits.SECRET_BYTES_MAX:
        raise _unavailable(reference, f"there are more than {limits.SECRET_BYTES_MAX} bytes", "a secret is one key")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _unavailable(reference, "it is not text in UTF-8", "encode it, for example as base64") from None
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise _unavailable(reference, "it is empty", "put the secret there")
    return value


def _unavailable(reference: SecretReference, why: str, hint: str) -> Unavailable:
    return Unavailable("SECRET_UNREADABLE", f"the secret from {describe_reference(reference)}: {why}", hint)


def _file_warning(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    if os.name == "nt" or not mode & stat.S_IROTH:
        return None
    return f"{path} holds a secret, and every user of this machine can read it; run chmod o-rwx"
