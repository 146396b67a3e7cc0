"""A file that another process holds for a while, as a process of Penstock does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import SECONDS_MAX

__all__ = ["held"]

_HOLD = """
import sqlite3, sys
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
connection = sqlite3.connect(sys.argv[1], isolation_level=None, factory=NotedConnection)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute(sys.argv[2])
connection.execute("SELECT count(*) FROM runs").fetchone()
print("held", flush=True)
sys.stdin.readline()
connection.close()
"""


@contextmanager
def held(path: Path, statement: str) -> Iterator[None]:
    """Another process has executed a statement on a file and keeps it open."""
    command = [sys.executable, "-c", _HOLD, str(path), statement]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(SECONDS_MAX)
