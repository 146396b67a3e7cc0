"""Run ids (ordered by time, unguessable, easy to read aloud), and the name of the default tenant.

``r_`` and 26 characters of Crockford's base 32: 10 for the millisecond, 16 for 80 random bits. Later ids sort later,
which keeps an index compact. The caller supplies the time and the randomness.

A run that continues as a new one names its successor: ``order-7`` continues as ``order-7~2``, and that as
``order-7~3``. Together they form one chain, identified by the id of its first run. Child runs append ``:`` and more to
the parent's id.

Names that callers choose are unique only within their tenant. The default tenant stores them unchanged, other tenants
store them as ``tenant~.name``. In a chain a number follows the ``~``, so the two forms cannot be confused.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "AUTHOR_LABEL",
    "DEFAULT_TENANT",
    "ENTROPY_BYTES",
    "PERSON_AGENT",
    "RUN_ID_CHARACTERS",
    "RUN_ID_TIME_CHARACTERS",
    "chain_of",
    "generation_of",
    "id_for_callers",
    "id_in_tenant",
    "in_run_tree",
    "next_in_chain",
    "run_id_of",
]

_DIGITS = frozenset("123456789")

# The tenant of callers that name none, and of everything in files from before there were tenants.
AUTHOR_LABEL = "penstock.author"
"""The label of runs whose own version an agent wrote."""
DEFAULT_TENANT = "default"
PERSON_AGENT = "penstock.person"
"""The id of the built-in agent that asks a person, with an answer schema that is known only at run time."""
ENTROPY_BYTES = 10
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]  # two characters at once: half the work
_PAIR_BITS = 10
_PAIR_MASK = (1 << _PAIR_BITS) - 1
_TIME_CHARACTERS = 10
_TIME_BITS = _TIME_CHARACTERS * _PAIR_BITS // 2
_HALF = ENTROPY_BYTES // 2  # a whole number of characters, and small enough for fast integer arithmetic
_ENTROPY_CHARACTERS = 16
_PREFIX = "r_"
# Lengths of a whole id, and of the part that all ids of one millisecond share.
RUN_ID_TIME_CHARACTERS = len(_PREFIX) + _TIME_CHARACTERS
RUN_ID_CHARACTERS = RUN_ID_TIME_CHARACTERS + _ENTROPY_CHARACTERS
_LATER_RUN = re.compile(r"(.+)~([1-9][0-9]{0,17})", re.DOTALL)


def run_id_of(now_ms: int, entropy: bytes) -> str:
    """Build a run id from an instant and ten random bytes."""
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"a run id needs {ENTROPY_BYTES} random bytes, not {len(entropy)}")
    return _time_part(now_ms) + _eight(entropy[:_HALF]) + _eight(entropy[_HALF:])


def chain_of(run_id: str) -> str:
    """Return the id of the first run in a run's chain: its own id, unless it continues another run."""
    found = _LATER_RUN.fullmatch(run_id)
    return run_id if found is None else found[1]


def generation_of(run_id: str) -> int:
    """Return the position of a run in its chain, counted from 1."""
    found = _LATER_RUN.fullmatch(run_id)
    return 1 if found is None else int(found[2])


def next_in_chain(run_id: str) -> str:
    """Return the id of the run that continues a run."""
    return f"{chain_of(run_id)}~{generation_of(run_id) + 1}"


def id_in_tenant(tenant: str, name: str) -> str:
    """Return the stored id of a name that a tenant's caller chose; an id in stored form is unchanged."""
    prefix = f"{tenant}~."
    return name if tenant == DEFAULT_TENANT or name.startswith(prefix) else prefix + name


def id_for_callers(tenant: str, stored_id: str) -> str:
    """Return the name that a tenant's callers use for a stored id."""
    return stored_id if tenant == DEFAULT_TENANT else stored_id.removeprefix(f"{tenant}~.")


@lru_cache(maxsize=4)
def _time_part(now_ms: int) -> str:
    """Return the prefix that all ids of one millisecond share."""
    pairs = [_PAIRS[now_ms >> shift & _PAIR_MASK] for shift in range(_TIME_BITS - _PAIR_BITS, -1, -_PAIR_BITS)]
    return _PREFIX + "".join(pairs)


def _eight(entropy: bytes) -> str:
    """Encode five bytes as eight characters."""
    number = int.from_bytes(entropy, "big")
    return (
        _PAIRS[number >> 30]
        + _PAIRS[number >> 20 & _PAIR_MASK]
        + _PAIRS[number >> 10 & _PAIR_MASK]
        + _PAIRS[number & _PAIR_MASK]
    )


def in_run_tree(run_id: str, root_run_id: str | None) -> bool:
    """Whether a run is the named one, of its chain, or a child run of these; without a name, every run is.

    The id of a child run begins with that of its parent, the ids of a chain with that of its first run.
    """
    if root_run_id is None:
        return True
    first = chain_of(root_run_id)
    if not run_id.startswith(first):
        return False
    rest = run_id[len(first) :]
    return rest[:1] in ("", ":") or (rest[0] == "~" and rest[1:2] in _DIGITS)
