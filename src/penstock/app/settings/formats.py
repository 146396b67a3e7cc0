"""The formats of texts in settings: addresses, paths, networks, names.

Above it: `model` and `named` give a format to a key, `types` checks it. It does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Literal

from msgspec import Struct

from penstock.app.database_names import scheme_of
from penstock.base.scopes import is_scope
from penstock.governance.tokens.rules import ALGORITHMS
from penstock.runtime.address_guard import AddressGuard

__all__ = [
    "ALGORITHM",
    "ALLOWED_HOST",
    "BRANCH",
    "CAPABILITY",
    "DATABASE",
    "ENDPOINT",
    "GRAPH_ID",
    "GROUP",
    "HOST",
    "ISSUER_NAME",
    "MODULE",
    "NETWORK",
    "ORIGIN",
    "PATH",
    "PRINCIPAL",
    "QUERY_NAME",
    "SCOPE",
    "SCOPE_NAME",
    "SECRET_NAME",
    "SECURE_URL",
    "TABLE_NAME",
    "TENANT",
    "TOOLSET",
    "TOOL_PREFIX",
    "TRACE_URL",
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

    `anchor`: a path, or a module or database that may be a path, is relative to the folder of the file that names it.
    """

    expected: str
    pattern: str | None = None
    check: Callable[[str], bool] | None = None
    anchor: Literal["path", "module", "database"] | None = None

    def fits(self, text: str) -> bool:
        """True if a text has this format."""
        if self.pattern is not None and re.fullmatch(self.pattern, text) is None:
            return False
        return self.check is None or self.check(text)

    def is_path(self, text: str) -> bool:
        """True if a text of this format is a path, not the name of a module or the address of a database."""
        if self.anchor == "database":
            return scheme_of(text) is None
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
DATABASE = Format(expected="the path of a database file", anchor="database")
MODULE = Format(expected="a file (steps.py) or the name of a module", anchor="module")
# No user and password before the host: an address is shown, a secret must not be.
URL = Format(
    expected="an address that begins with http:// or https://, without a password in it",
    pattern=r"https?://[^\s/@?#]+(/[^\s?#]*)?",
)
TRACE_URL = Format(
    expected="an address that begins with http:// or https:// and has {trace_id} in its path, query or fragment",
    pattern=r"https?://[^\s/@?#{}]+[/?#][^\s{}]*\{trace_id\}[^\s{}]*",
)
SECURE_URL = Format(
    expected="an address that begins with https://, or with http:// and a name of this machine",
    pattern=r"(https://[^\s/@?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?)(/[^\s?#]*)?",
)
ALGORITHM = Format(expected=f"one of {', '.join(ALGORITHMS)}", pattern="|".join(ALGORITHMS))
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
GROUP = Format(expected="a name such as support-leads", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]*")
SCOPE = Format(expected="a scope such as shop:refund or reports.read", check=is_scope)
ISSUER_NAME = Format(
    expected="a word of up to 32 small letters, digits, - and _ that begins with a letter",
    pattern=r"[a-z][a-z0-9_-]{0,31}",
)
PRINCIPAL = Format(
    expected="a word of up to 100 letters, digits, ., - and _", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
)
TENANT = Format(
    expected="a word of small letters, digits, - and _ of up to 63 characters", pattern=r"[a-z0-9][a-z0-9_-]{0,62}"
)
SCOPE_NAME = Format(expected="a scope of the issuer: printable characters, no blanks", pattern=r"[!#-\[\]-~]+")
GRAPH_ID = Format(
    expected="a word of up to 64 letters, digits, - and _ that begins with a letter or digit",
    pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
)
QUERY_NAME = Format(expected="a word of up to 64 letters, digits, - and _", pattern=r"[A-Za-z0-9_-]{1,64}")
BRANCH = Format(expected="the name of a branch, such as main", pattern=r"[A-Za-z0-9][A-Za-z0-9_./-]{0,127}")
TABLE_NAME = Format(expected="a name without spaces and colons", pattern=r"[^\s:]+")
CAPABILITY = Format(
    expected="the name of an operation such as workflow.execute, or of a tool such as workflow:refund_order",
    pattern=r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+|(workflow|prompt|resource|upstream):\S+",
)
