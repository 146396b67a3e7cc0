"""Where secrets may be sent: the hosts that the operator bound them to.

A bound secret is sent to its hosts and nowhere else. An unbound one goes where the author of a document sends it,
unless the author is an agent, which could choose the address.

Above it: what fills secrets into requests. Below it: nothing but data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["NOT_BOUND", "NOT_FOR_HOST", "allowed_hosts", "fits_host", "unbound_secret"]

NOT_BOUND = "SECRET_NOT_BOUND"
"""The error code for a secret that is bound to no host in a document by an agent."""
NOT_FOR_HOST = "SECRET_NOT_FOR_HOST"
"""The error code if a secret would go to a host that it is not bound to."""


def unbound_secret(names: Iterable[str], bound: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the first of some secrets that is bound to no host; None if all are."""
    return next((name for name in names if not bound.get(name)), None)


def allowed_hosts(names: Iterable[str], bound: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the hosts to which all of some secrets may go together; None if none of them is bound."""
    wanted = [bound[name] for name in names if bound.get(name)]
    if not wanted:
        return None
    first, *others = wanted
    return tuple(host for host in first if all(host in other for other in others))


def fits_host(host: str, allowed: Iterable[str]) -> bool:
    """Whether a host is one of those allowed; `*.example.com` stands for every host below example.com."""
    plain = host.lower().rstrip(".")
    for pattern in (item.lower() for item in allowed):
        if plain == pattern or (pattern.startswith("*.") and plain.endswith(pattern[1:]) and plain != pattern[2:]):
            return True
    return False
