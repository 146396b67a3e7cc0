"""A command with a terminal of its own, and a test that reads what it shows and types."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.live.cli.processes import Shop
from tests.waiting import SECONDS_MAX

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass
class Terminal:
    """A process with a terminal of its own."""

    process: subprocess.Popen[bytes]
    master: int
    seen: str = ""
    position: int = field(default=0)

    def expect(self, text: str) -> str:
        """Wait until the process has shown a text, after what was expected before."""
        deadline = time.monotonic() + SECONDS_MAX
        while (found := self.seen.find(text, self.position)) < 0:
            assert self._read(deadline), f"{text!r} was not shown:\n{self.seen[self.position :]}"
        shown, self.position = self.seen[self.position : found], found + len(text)
        return shown

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], max(deadline - time.monotonic(), 0))
        try:
            data = os.read(self.master, 65536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        self.seen += ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)

    def end_answering(self, answers: Mapping[str, str]) -> int:
        """Read to the end, type the answer to each prompt as it appears, and give the exit code."""
        deadline = time.monotonic() + SECONDS_MAX
        prompts = re.compile("|".join(map(re.escape, answers)))
        while self._read(deadline):
            while found := prompts.search(self.seen, self.position):
                self.position = found.end()
                self.type(f"{answers[found[0]]}\n")
        return self.process.wait(timeout=SECONDS_MAX)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        """Read to the end and give the exit code."""
        deadline = time.monotonic() + SECONDS_MAX
        while self._read(deadline):
            pass
        return self.process.wait(timeout=SECONDS_MAX)


@contextmanager
def at_terminal(shop: Shop, *arguments: str) -> Iterator[Terminal]:
    """A command of ours at a terminal."""
    with program_at_terminal(shop, *shop.command(*arguments)) as terminal:
        yield terminal


@contextmanager
def program_at_terminal(shop: Shop, *command: str) -> Iterator[Terminal]:
    """Any program at a terminal, in the folder of the shop; it is killed at the end if it has not ended."""
    master, slave = pty.openpty()
    environment = {**shop.environment(), "TERM": "xterm", "LINES": "40", "COLUMNS": "120"}
    process = subprocess.Popen(
        command,
        cwd=shop.folder,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=None,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(timeout=SECONDS_MAX)
        os.close(master)
