"""Run ids: ordered by time, unguessable, and easy to read out; and the name of the tenant that is always there.

``r_`` and 26 characters of Crockford's base 32: 10 for the millisecond, 16 for 80 random bits. Ids made later sort
later, which keeps an index compact. Where time and randomness come from is the caller's business.

A run that continues as a new one names its successor: ``order-7`` goes on as ``order-7~2``, that one as ``order-7~3``.
All of them are one chain, called by the id of its first run. Child runs add ``:`` and more to the id of their parent.

What callers name themselves is unique within their tenant only. It is stored as it is in the default tenant, and as
``tenant~.name`` in others: after the ``~`` of a chain comes a number, so that neither is taken for the other.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "DEFAULT_TENANT",
    "ENTROPY_BYTES",
    "PERSON_AGENT",
    "RUN_ID_CHARACTERS",
    "RUN_ID_TIME_CHARACTERS",
    "chain_of",
    "generation_of",
    "id_for_callers",
    "id_in_tenant",
    "next_in_chain",
    "run_id_of",
]

# Whoever names no tenant works in this one; what older files hold belongs to it.
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
_HALF = ENTROPY_BYTES // 2  # as many bits as whole characters have, and few enough to be counted with quickly
_ENTROPY_CHARACTERS = 16
_PREFIX = "r_"
# Of a whole id, and of the part that all ids of a millisecond have in common.
RUN_ID_TIME_CHARACTERS = len(_PREFIX) + _TIME_CHARACTERS
RUN_ID_CHARACTERS = RUN_ID_TIME_CHARACTERS + _ENTROPY_CHARACTERS
_LATER_RUN = re.compile(r"(.+)~([1-9][0-9]{0,17})", re.DOTALL)


def run_id_of(now_ms: int, entropy: bytes) -> str:
    """A run id from an instant and ten random bytes."""
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"a run id needs {ENTROPY_BYTES} random bytes, not {len(entropy)}")
    return _time_part(now_ms) + _eight(entropy[:_HALF]) + _eight(entropy[_HALF:])


def chain_of(run_id: str) -> str:
    """The id of the first run of the chain that a run belongs to; its own, unless it continues another."""
    found = _LATER_RUN.fullmatch(run_id)
    return run_id if found is None else found[1]


def generation_of(run_id: str) -> int:
    """Which run of its chain a run is, counted from 1."""
    found = _LATER_RUN.fullmatch(run_id)
    return 1 if found is None else int(found[2])


def next_in_chain(run_id: str) -> str:
    """The id of the run that continues a run."""
    return f"{chain_of(run_id)}~{generation_of(run_id) + 1}"


def id_in_tenant(tenant: str, name: str) -> str:
    """The id under which something is stored that a caller of a tenant named; a stored id stays as it is."""
    prefix = f"{tenant}~."
    return name if tenant == DEFAULT_TENANT or name.startswith(prefix) else prefix + name


def id_for_callers(tenant: str, stored_id: str) -> str:
    """What the callers of a tenant call something that is stored under an id."""
    return stored_id if tenant == DEFAULT_TENANT else stored_id.removeprefix(f"{tenant}~.")


@lru_cache(maxsize=4)
def _time_part(now_ms: int) -> str:
    """What the ids of a millisecond begin with."""
    pairs = [_PAIRS[now_ms >> shift & _PAIR_MASK] for shift in range(_TIME_BITS - _PAIR_BITS, -1, -_PAIR_BITS)]
    return _PREFIX + "".join(pairs)


def _eight(entropy: bytes) -> str:
    """Five bytes as eight characters."""
    number = int.from_bytes(entropy, "big")
    return (
        _PAIRS[number >> 30]
        + _PAIRS[number >> 20 & _PAIR_MASK]
        + _PAIRS[number >> 10 & _PAIR_MASK]
        + _PAIRS[number & _PAIR_MASK]
    )
