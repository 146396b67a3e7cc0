"""What texts in settings must look like: addresses, paths, networks, names.

Above it: `model` and `items` give a form to a key. Below it: `keys`. It reads nothing.
"""

from __future__ import annotations

import re
from ipaddress import ip_network

from penstock.app.settings.keys import Form
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
    "carries_credentials",
]

# How names of headers and variables end whose values open doors; `MAX_TOKENS` and `TOKENIZERS` do not.
_CREDENTIALS = re.compile(
    r"(authorization|cookie|token|secret|passw(or)?d|passphrase|credentials?|(api|access|secret|private|auth)[-_]?key)$",
    re.IGNORECASE,
)


def carries_credentials(name: str) -> bool:
    """Whether a header or variable of this name holds a secret."""
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


PATH = Form(expected="a path", anchor="path")
MODULE = Form(expected="a file (steps.py) or the name of a module", anchor="module")
# No user and password before the host: an address is shown, a secret must not be.
URL = Form(
    expected="an address that begins with http:// or https://, without a password in it",
    pattern=r"https?://[^\s/@?#]+(/[^\s?#]*)?",
)
ORIGIN = Form(expected="an origin such as https://app.example, or `*`", pattern=r"\*|https?://[^\s/@?#]+")
URL_PATH = Form(expected="a path such as /mcp, without a slash at its end", pattern=r"/|(/[A-Za-z0-9._~-]+)+")
ENDPOINT = Form(expected="a path with wildcards, such as `/api/v0/admin/*`", pattern=r"/\S*")
HOST = Form(expected="a host name or an address of this machine", pattern=r"[0-9A-Za-z._:%-]+")
NETWORK = Form(expected="an address or a network such as 10.0.0.0/8", check=_is_network)
ALLOWED_HOST = Form(expected="a host name, `*.name`, an address or a network", check=_is_allowed_host)
TOOL_PREFIX = Form(
    expected="a word of up to 32 letters, digits, - and _ that begins with a letter",
    pattern=r"[A-Za-z][A-Za-z0-9_-]{0,31}",
)
TOOLSET = Form(
    expected="`default`, `management`, `workflows`, `all`, `search`, things or names, with commas between",
    pattern=r"[A-Za-z0-9_.:-]+(, ?[A-Za-z0-9_.:-]+)*",
)
SECRET_NAME = Form(expected="a name as in ${secret:NAME}", pattern=r"[A-Za-z_][A-Za-z0-9_]*")
SCOPE = Form(expected="a scope such as shop:refund or reports.read", check=is_scope)
TABLE_NAME = Form(expected="a name without spaces and colons", pattern=r"[^\s:]+")
