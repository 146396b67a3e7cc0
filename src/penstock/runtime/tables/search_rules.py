"""Which text finds a run: the same in every store.

A search text is split into words, and case is ignored. Each word must be part of a word of the run's id, of its
workflow's name or of a label's value. Words of one or two letters match only at the start of a word, because nearly
every word contains them somewhere. Generated ids (`base.ids`) also match only at the start: nobody searches for the
middle of a random id, and indexing it would cost more than everything else together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import RUN_ID_CHARACTERS, id_for_callers

__all__ = ["PART_CHARACTERS_MIN", "folded", "generated_id_in", "run_words", "search_words", "text_matches"]

# Shorter words match only at the start of a word; words of this length or more match anywhere in it.
PART_CHARACTERS_MIN = 3

_OF_TENANT = "~."
_GENERATED_ID = re.compile(rf"r_[0-9a-z]{{{RUN_ID_CHARACTERS - 2}}}")


def folded(text: str) -> str:
    """Text with its case folded."""
    return text.casefold()


def search_words(text: str) -> tuple[str, ...]:
    """The words of a search text."""
    if len(text) > limits.SEARCH_TEXT_CHARACTERS_MAX:
        message = f"the search text has {len(text)} characters"
        raise Rejected("SEARCH_TEXT_TOO_LONG", message, f"use at most {limits.SEARCH_TEXT_CHARACTERS_MAX}")
    # A stored id is matched as the id that callers of its tenant see, without the tenant.
    return tuple(dict.fromkeys(word.rpartition(_OF_TENANT)[2] or word for word in folded(text).split()))


def run_words(tenant: str, run_id: str, workflow_name: str, label_values: Iterable[str]) -> list[str]:
    """The words of a run that a search looks at. The id is the one that callers of the tenant see."""
    return folded(" ".join((id_for_callers(tenant, run_id), workflow_name, *label_values))).split()


def text_matches(words_of_run: Sequence[str], words: Iterable[str]) -> bool:
    """True if every search word matches a word of the run."""
    return all(any(_is_found(word, in_word) for in_word in words_of_run) for word in words)


def _is_found(word: str, in_word: str) -> bool:
    if in_word.startswith(word):
        return True
    return len(word) >= PART_CHARACTERS_MIN and word in in_word[len(generated_id_in(in_word)) :]


def generated_id_in(word: str) -> str:
    """The generated id at the start of a word, which may continue after it as a child run's does; else empty."""
    found = _GENERATED_ID.match(word)
    return "" if found is None else found.group()
