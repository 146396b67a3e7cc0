"""The formats of texts in settings: addresses, paths, networks, names.

Above it: `model` and `named` give a format to a key, `types` checks it. It does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Literal

from msgspec import Struct

from penstock.base.scopes import is_scope
from penstock.runtime.address_guard import AddressGuard

__all__ = [
    "ALLOWED_HOST",
    "ENDPOINT",
    "HOST",
    "MODULE",
    "NETWORK",
    "ORIGIN",
    "PATH",
    "SCOPE",
    "SECRET_NAME",
    "TABLE_NAME",
    "TOOLSET",
    "TOOL_PREFIX",
    "URL",
    "URL_PATH",
    "Format",
    "carries_credentials",
]

# How the names of headers and variables with credentials end; `MAX_TOKENS` and `TOKENIZERS` do not match.
_CREDENTIALS = re.compile(
    r"(authorization|cookie|token|secret|passw(or)?d|passphrase|credentials?|(api|access|secret|private|auth)[-_]?key)$",
    re.IGNORECASE,
)


class Format(Struct, frozen=True, kw_only=True):
    """The format of a text. `pattern` covers the whole text; `check` does what a pattern cannot.

    `anchor`: a path, or a module that may be a path, is relative to the folder of the file that names it.
    """

    expected: str
    pattern: str | None = None
    check: Callable[[str], bool] | None = None
    anchor: Literal["path", "module"] | None = None

    def fits(self, text: str) -> bool:
        """True if a text has this format."""
        if self.pattern is not None and re.fullmatch(self.pattern, text) is None:
            return False
        return self.check is None or self.check(text)

    def is_path(self, text: str) -> bool:
        """True if a text of this format is a path, not the name of a module."""
        return self.anchor == "path" or (self.anchor == "module" and (text.endswith(".py") or "/" in text))


def carries_credentials(name: str) -> bool:
    """True if a header or variable of this name holds a secret."""
    return _CREDENTIALS.search(name) is not None


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_allowed_host(text: str) -> bool:
    try:
        AddressGuard(allow_hosts=(text,))
    except ValueError:
        return False
    return True


PATH = Format(expected="a path", anchor="path")
MODULE = Format(expected="a file (steps.py) or the name of a module", anchor="module")
# No user and password before the host: an address is shown, a secret must not be.
URL = Format(
    expected="an address that begins with http:// or https://, without a password in it",
    pattern=r"https?://[^\s/@?#]+(/[^\s?#]*)?",
)
ORIGIN = Format(expected="an origin such as https://app.example, or `*`", pattern=r"\*|https?://[^\s/@?#]+")
URL_PATH = Format(expected="a path such as /mcp, without a slash at its end", pattern=r"/|(/[A-Za-z0-9._~-]+)+")
ENDPOINT = Format(expected="a path with wildcards, such as `/api/v0/admin/*`", pattern=r"/\S*")
HOST = Format(expected="a host name or an address of this machine", pattern=r"[0-9A-Za-z._:%-]+")
NETWORK = Format(expected="an address or a network such as 10.0.0.0/8", check=_is_network)
ALLOWED_HOST = Format(expected="a host name, `*.name`, an address or a network", check=_is_allowed_host)
TOOL_PREFIX = Format(
    expected="a word of up to 32 letters, digits, - and _ that begins with a letter",
    pattern=r"[A-Za-z][A-Za-z0-9_-]{0,31}",
)
TOOLSET = Format(
    expected="`default`, `management`, `workflows`, `all`, `search`, things or names, with commas between",
    pattern=r"[A-Za-z0-9_.:-]+(, ?[A-Za-z0-9_.:-]+)*",
)
SECRET_NAME = Format(expected="a name as in ${secret:NAME}", pattern=r"[A-Za-z_][A-Za-z0-9_]*")
SCOPE = Format(expected="a scope such as shop:refund or reports.read", check=is_scope)
TABLE_NAME = Format(expected="a name without spaces and colons", pattern=r"[^\s:]+")
