"""The quick start is followed from its first command to its last, and everything it shows is what happens."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.cli.processes import Shop, read_until
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_folder

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "quick-start.md"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What is different every time.
VARIABLE = (
    (re.compile(r"pen_[\w-]+"), "KEY"),
    (re.compile(r"key:\w+"), "key:KEY"),
    (re.compile(r"sign-in/link/[\w-]+"), "sign-in/link/TOKEN"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"[\d.]+ ms"), "N ms"),
    (re.compile(r" +\+[\dms]+$", re.MULTILINE), ""),
    (re.compile(r"[0-9a-f]{64}"), "HASH"),
    (re.compile(r"r_[0-9A-Z]{26}"), "RUN"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
)


@dataclass(frozen=True)
class Block:
    """Something to type, or something to see."""

    kind: str
    text: str


def plain(text: str) -> list[str]:
    for pattern, replacement in VARIABLE:
        text = pattern.sub(replacement, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def blocks() -> Iterator[Block]:
    for match in FENCED.finditer(PAGE.read_text(encoding="utf-8")):
        yield Block(match[1], match[2])


@dataclass
class Reader:
    """Somebody who does what the page says."""

    shop: Shop
    environment: dict[str, str]
    address: str = ""

    def type(self, text: str) -> str:
        command = text.replace("127.0.0.1:5151", self.address)
        command = re.sub(r"^export .*\n", "", command, flags=re.MULTILINE)
        finished = subprocess.run(
            ["bash", "-c", command],
            cwd=self.shop.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    shop = Shop(tmp_path)
    path = os.pathsep.join([str(piped_folder(tmp_path / "bin")), str(Path(sys.executable).parent), os.environ["PATH"]])
    return Reader(shop, {**shop.environment(), "PATH": path, "PYTHONUTF8": "1"})


def test_the_page_is_what_happens(reader: Reader) -> None:
    page = list(blocks())
    kinds = [(block.kind, block.text.split("\n")[0][:24]) for block in page]
    at = next(number for number, block in enumerate(page) if block.text == "penstock dev\n")
    assert plain(reader.type(page[0].text)) == plain(page[1].text)
    reader.shop = Shop(reader.shop.folder / "shop")
    assert plain(reader.type(page[2].text)) == plain(page[3].text)
    with reader.shop.start("dev", "--port", "0") as server:
        told = read_until(server, "watching files")
        shown = plain(page[at + 1].text)
        assert plain(told)[: len(shown)] == shown, kinds
        reader.address = re.findall(r"127\.0\.0\.1:\d+", told)[0]
        reader.environment["PENSTOCK_API_KEY"] = re.findall(r"pen_[\w-]+", told)[0]
        follow(reader, server, page[at + 2 :])


def follow(reader: Reader, server: subprocess.Popen[str], page: list[Block]) -> None:
    """Everything after the server has begun: what is typed prints the next block, the rest is on its terminal."""
    call, handle, lines, answer, answered, stream, events, history, records, tool, result, change, mistake = page
    assert plain(reader.type(call.text)) == plain(handle.text)
    assert plain(read_until(server, "answer it")) == plain(lines.text)
    file = reader.shop.folder / "workflows" / "refund.yaml"
    text = file.read_text(encoding="utf-8")
    changed = text.replace("amount > 100", "amount > 150").replace("version: 1.0.0", "version: 1.1.0")
    file.write_text(changed, encoding="utf-8")
    assert plain(read_until(server, "in progress")) == plain(change.text)
    file.write_text(changed.replace("default: pay", "default: pya"), encoding="utf-8")
    assert plain(read_until(server, "has mistakes")) == plain(mistake.text)
    assert plain(reader.type(answer.text)) == plain(answered.text)
    assert plain(reader.type(stream.text)) == plain(events.text)
    assert plain(reader.type(history.text)) == plain(records.text)
    assert plain(reader.type(tool.text)) == plain(result.text)
