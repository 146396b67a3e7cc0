"""A real browser without a window, spoken to over a pipe: no driver is needed.

It is the one of the machine where there is one; on a Debian where we may install packages, it is installed. Else it is
the one that `requirements/node` pins: a package with a Chromium and the libraries that it needs, which is unpacked once
into `.node` and wants neither root nor an installation. That one ends when it draws a field with text in it, so pages
with such fields need a whole one.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mcp_suite.node import node_programs
from tests.waiting import SECONDS_MAX

__all__ = ["Browser", "browsing"]

_UNPACK_SECONDS_MAX = 300
_INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
_QUIETLY = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
_LOCK = Path(tempfile.gettempdir()) / "penstock-tests-chromium.lock"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
# The package has a browser for this kind of machine only.
_MACHINES = ("x86_64", "AMD64")
_UNPACK = 'import chromium from "@sparticuz/chromium"; console.log(await chromium.executablePath());'
# It unpacks its libraries only where it believes to be in that cloud.
_IN_CLOUD = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync")


@cache
def _whole() -> str | None:
    """The command of a browser that this machine has, installed now if we may; None if there is none."""
    found = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if found is not None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return found
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (_INSTALL, ["apt-get", "update"], _INSTALL):
            if shutil.which(_NAMES[0]) is None:
                subprocess.run(command, env=_QUIETLY, capture_output=True, timeout=_UNPACK_SECONDS_MAX, check=False)
    return shutil.which(_NAMES[0])


@cache
def _installed() -> tuple[str, dict[str, str]] | None:
    """The command of a browser and what its environment needs; None where there is none for this kind of machine."""
    own = _whole()
    if own is not None:
        return own, {}
    if platform.machine() not in _MACHINES:
        return None
    programs = node_programs()
    # Beside the packages, so that it goes when they are installed anew.
    unpacked, partial = programs.modules / ".chromium", programs.modules / ".chromium-partial"
    with (programs.modules / ".chromium-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            subprocess.run(
                [programs.command, "--input-type=module", "--eval", _UNPACK],
                cwd=programs.modules.parent,
                env={**os.environ, **_IN_CLOUD, "TMPDIR": str(partial)},
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=_UNPACK_SECONDS_MAX,
            )
            partial.rename(unpacked)
    libraries = os.pathsep.join([str(unpacked / "al2023" / "lib"), str(unpacked)])
    return str(unpacked / "chromium"), {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_PATH": str(unpacked / "fonts")}


@dataclass(slots=True)
class Browser:
    """One page of a browser."""

    sending: int
    receiving: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _count: int = 0
    _rest: bytes = b""

    def command(self, method: str, **params: Any) -> Any:
        """What the browser answers."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.sending, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._heard()
            if heard.get("id") == self._count:
                assert "error" not in heard, heard
                return heard["result"]
            self.events.append(heard)

    def _heard(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.receiving], [], [], SECONDS_MAX)
            assert ready, "the browser says nothing"
            part = os.read(self.receiving, 65_536)
            assert part, "the browser ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next event of a name."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            assert time.monotonic() < deadline, f"no {event}, but {[heard.get('method') for heard in self.events[-5:]]}"
            for index, heard in enumerate(self.events):
                if heard.get("method") == event:
                    del self.events[: index + 1]
                    found: dict[str, Any] = heard["params"]
                    return found
            self.events.append(self._heard())

    def open(self, url: str) -> None:
        """Show a page."""
        self.events.clear()
        self.command("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def evaluate(self, script: str) -> Any:
        """What a script of the test's finds on the page."""
        return self.command("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def type_into(self, selector: str, text: str) -> None:
        """Type as a person does."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.command("Input.insertText", text=text)

    def press(self, selector: str) -> None:
        """Press a button and wait for the next page."""
        self.events.clear()
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
        self.wait_for("Page.loadEventFired")


@contextmanager
def browsing(profile: Path, *, whole: bool = False) -> Iterator[Browser]:
    """A browser until the block ends; the test is skipped where there is none for the kind of machine.

    `whole`: one that can draw every page.
    """
    if whole and _whole() is None:
        pytest.skip("there is no Chromium, and it cannot be installed: apt-get install chromium")
    installed = _installed()
    if installed is None:
        pytest.skip(f"there is no browser for a machine of the kind {platform.machine()}")
    command, environment = installed
    # The browser reads from descriptor 3 and writes to 4; ours must be none of these.
    ends = [*os.pipe(), *os.pipe()]
    commands, sending, receiving, answers = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _START, str(commands), str(answers), command, *_FLAGS),
            *(f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"),
        ],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(commands, answers),
        start_new_session=True,
    )
    os.close(commands)
    os.close(answers)
    browser = Browser(sending, receiving)
    try:
        page = browser.command("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.command("Target.attachToTarget", targetId=page, flatten=True)
        browser.session = attached["sessionId"]
        browser.command("Page.enable")
        browser.command("Log.enable")
        yield browser
        browser.session = ""
        browser.command("Browser.close")
    finally:
        try:
            process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        os.close(sending)
        os.close(receiving)
