"""What a process may cache, by topic: numbers of topics that triggers count, and the newest snapshot for any commit.

A topic has a row for each connection that changed it, so that changes of one topic do not wait for each other. Its
number is their sum. A snapshot names the transactions that are visible: it differs after every commit.

Above it: `database`. Below it: `connections`.
"""

from __future__ import annotations

import asyncio
import hashlib

import psycopg

from penstock.runtime.ports.topics import Mark, Topic
from tests.conformance.postgresql.connections import Connections

__all__ = ["TopicReader"]

_READ = (
    f"SELECT '{Topic.ANYTHING}', pg_current_snapshot()::text"
    " UNION ALL SELECT topic, sum(number)::text FROM topics GROUP BY topic"
)
_SNAPSHOT_BYTES = 8


class TopicReader:
    """Asks the server at most once per turn of the event loop, on the thread of the loop: one statement in memory."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._numbers: dict[str, int] = {}
        self._unknown_number = 0
        self._unread_marks = 0
        self._is_current = False

    def changed(self, *topics: Topic) -> Mark:
        """Return a number for each topic: one that it never had before if the server does not answer."""
        if not self._is_current:
            self._is_current = True
            asyncio.get_running_loop().call_soon(self._end_turn)
            self._read()
        return tuple([self._numbers.get(topic, self._unknown_number) for topic in topics])

    def _end_turn(self) -> None:
        self._is_current = False

    def _read(self) -> None:
        try:
            found: dict[str, str] = dict(self._connections.of_thread().execute(_READ).fetchall())
        except psycopg.Error:
            self._unread_marks -= 1
            self._numbers, self._unknown_number = {}, self._unread_marks
            return
        snapshot = hashlib.blake2b(found.pop(Topic.ANYTHING).encode(), digest_size=_SNAPSHOT_BYTES).digest()
        self._numbers = {topic: int(number) for topic, number in found.items()}
        self._numbers[Topic.ANYTHING] = int.from_bytes(snapshot)
        self._unknown_number = 0
