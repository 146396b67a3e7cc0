"""The exceptions Penstock raises at its edges; the class says whose fault it is.

    PenstockError
    ├── Rejected          the caller sent something that cannot be accepted as it is
    ├── NotFound          the thing named does not exist, or the caller may not know that it does
    ├── Denied            the caller is known and is not allowed
    ├── Conflict          the request was fine, but the thing has moved on
    ├── LimitExceeded     a named limit was reached
    ├── Unavailable       something Penstock depends on cannot answer now; trying again may help
    └── CorruptHistory    a stored history contradicts itself; an operator must look

The pure layers return refusals as values; the shell turns them into these where a call has to end.
How a code becomes an HTTP status, a JSON-RPC error or an exit code is decided by the surfaces, not here.
"""

from typing import NamedTuple

from penstock.base.json import JsonObject

__all__ = [
    "Conflict",
    "CorruptHistory",
    "Denied",
    "LimitExceeded",
    "NotFound",
    "PenstockError",
    "Reason",
    "Rejected",
    "Unavailable",
]


class PenstockError(Exception):
    """A failure with a stable `code`, a `message` for people, and a `hint` that says what to do next."""

    on_record = False
    """Whether the audit log already has a record of it; the gate sets this for calls that it refuses."""
    challenge: str | None = None
    """How a client may get further: by signing in, or with another scope. The gate sets it; a header over HTTP."""

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        details: JsonObject | None = None,
    ) -> None:
        # All four go to Exception.args, so that the error survives pickling and copying.
        super().__init__(code, message, hint, details)
        self.code = code
        self.message = message
        self.hint = hint
        self.details: JsonObject = dict(details) if details is not None else {}

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class Reason(NamedTuple):
    """What is known about a code: the class of its errors, what it means, and what to do. No code lacks one of them."""

    kind: type[PenstockError]
    meaning: str
    """One sentence."""
    remedy: str
    """One sentence. It begins with a verb and names the operation, command, setting or field."""

    @property
    def hint(self) -> str:
        """The remedy in the form of a hint: without a capital and without a full stop."""
        return self.remedy[0].lower() + self.remedy[1:].removesuffix(".")


class Rejected(PenstockError):
    """The request cannot be accepted as it is; the caller has to change it."""


class NotFound(PenstockError):
    """The thing named does not exist for this caller."""


class Denied(PenstockError):
    """The caller is known but not allowed to do this."""


class Conflict(PenstockError):
    """The request was valid, but the thing it names is no longer in the state it needs."""


class LimitExceeded(PenstockError):
    """A named limit was reached."""


class Unavailable(PenstockError):
    """A dependency cannot answer now; the same request may succeed later."""


class CorruptHistory(PenstockError):
    """A stored history contradicts itself and must not be continued."""
