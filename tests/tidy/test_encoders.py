"""Nothing encodes values with msgspec's own `encode`, which ends the process when there is no memory left."""

import re
import subprocess
import sys
from pathlib import Path

from tests.waiting import SECONDS_MAX

SOURCE = Path("src/penstock")
UNSAFE = re.compile(
    r"msgspec\.json\.(?:encode|Encoder)\b|msgspec\.msgpack\.(?:encode|Encoder)\b|from msgspec\.json import"
)
# The client runs in the programs of others, and sends what they give it.
ALLOWED = ("base/encoding.py", "client/")
STARVED = """
import resource, sys
from penstock.base.encoding import SafeEncoder, SafePacker, encode_bytes

value = {"a": [[number, str(number) * 3] for number in range(200_000)]}
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
for encode in (encode_bytes, SafeEncoder(order="sorted").encode, SafePacker().encode):
    try:
        encode(value)
    except MemoryError:
        print("MemoryError")
"""


def test_no_module_encodes_with_what_does_not_check_its_memory() -> None:
    found = [
        path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if UNSAFE.search(path.read_text("utf-8"))
    ]
    assert [name for name in found if not name.startswith(ALLOWED)] == []


def test_a_value_for_which_there_is_no_memory_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED, "1000000"], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["MemoryError"] * 3), done.stderr
