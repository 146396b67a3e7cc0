"""Run ids: ordered by time, unguessable, and easy to read out.

``r_`` and 26 characters of Crockford's base 32: 10 for the millisecond, 16 for 80 random bits. Ids made later sort
later, which keeps an index compact. Where time and randomness come from is the caller's business.
"""

from __future__ import annotations

__all__ = ["ENTROPY_BYTES", "run_id_of"]

ENTROPY_BYTES = 10
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARACTERS = 10
_ENTROPY_CHARACTERS = 16


def run_id_of(now_ms: int, entropy: bytes) -> str:
    """A run id from an instant and ten random bytes."""
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"a run id needs {ENTROPY_BYTES} random bytes, not {len(entropy)}")
    return "r_" + _encode(now_ms, _TIME_CHARACTERS) + _encode(int.from_bytes(entropy, "big"), _ENTROPY_CHARACTERS)


def _encode(number: int, characters: int) -> str:
    text = ""
    for _ in range(characters):
        number, rest = divmod(number, len(_ALPHABET))
        text = _ALPHABET[rest] + text
    return text
