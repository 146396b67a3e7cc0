"""Our functions that SQL statements call: which text matches, what is indexed of a run, which names a document claims.

Above it: `files` and `vacuum`, because the tables of the file need them; `runs.text_index`. Below it: `rules.search`,
`definitions.claims`, `graph_functions`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from penstock.base.ids import RUN_ID_TIME_CHARACTERS
from penstock.definitions.claims import claimed_names
from penstock.runtime.stores.sqlite.schema.graph_functions import register_graph_functions
from penstock.runtime.tables.checksums import row_checksum
from penstock.runtime.tables.codec import encode_json, labels_of
from penstock.runtime.tables.search_rules import generated_id_in, run_words, search_words, text_matches

__all__ = ["WORD_MARK", "indexed_text", "register_functions"]

# Not a letter of any word. NUL would end the text for the tokenizer, so it is treated as a mark too.
WORD_MARK = "\x01"


def register_functions(connection: sqlite3.Connection) -> None:
    """Register the functions on a connection."""

    def matches(tenant: str, run_id: str, workflow_name: str, labels: str | None, text: str) -> bool:
        words = run_words(tenant, run_id, workflow_name, labels_of(labels).values())
        return text_matches(words, search_words(text))

    def indexed(tenant: str, run_id: str, workflow_name: str, labels: str | None) -> str:
        return indexed_text(tenant, run_id, workflow_name, labels_of(labels).values())

    def claimed(name: str, document: bytes) -> str:
        found = claimed_names(name, msgspec.json.decode(document, type=dict))
        return encode_json([list(item) for item in found]).decode()

    connection.create_function("text_matches", 5, matches, deterministic=True)
    connection.create_function("indexed_text", 4, indexed, deterministic=True)
    connection.create_function("claimed_names", 2, claimed, deterministic=True)
    connection.create_function("row_checksum", -1, lambda *values: row_checksum(values), deterministic=True)
    register_graph_functions(connection)


def indexed_text(tenant: str, run_id: str, workflow_name: str, label_values: Iterable[str]) -> str:
    """The text that is indexed for a run."""
    words = run_words(tenant, run_id, workflow_name, label_values)
    return "".join(map(_indexed, words)).replace("\0", WORD_MARK)


def _indexed(word: str) -> str:
    generated = generated_id_in(word)
    if generated:
        return f"{WORD_MARK}{WORD_MARK}{generated[:RUN_ID_TIME_CHARACTERS]}{WORD_MARK}{word[len(generated) :]}"
    return f"{WORD_MARK}{WORD_MARK}{word}"
