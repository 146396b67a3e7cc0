"""Every code with which the store refuses or reports something is explained in the table of reasons."""

import re
from pathlib import Path

from penstock.base.errors import PenstockError
from penstock.operations.catalogue.reasons import REASONS

STORES = (Path("src/penstock/runtime/stores"), Path("src/penstock/runtime/tables"))
RAISED = re.compile(r'\b(Unavailable|CorruptHistory|Rejected|Conflict|NotFound|LimitExceeded)\(\s*"([A-Z_]+)"')
REPORTED = re.compile(r'(?:code=|yield |^[A-Z_]+_CHANGED = )"([A-Z]+_[A-Z_]+)"', re.MULTILINE)


def test_every_code_of_the_store_has_a_reason_of_its_kind() -> None:
    kinds = {kind.__name__: kind for kind in PenstockError.__subclasses__()}
    texts = [path.read_text(encoding="utf-8") for folder in STORES for path in sorted(folder.rglob("*.py"))]
    raised = {(kind, code) for text in texts for kind, code in RAISED.findall(text)}
    reported = {code for text in texts for code in REPORTED.findall(text)}
    assert len(raised) > 20
    assert {"PAGE_CHANGED", "ROW_CHANGED"} <= reported
    assert sorted(({code for _, code in raised} | reported) - REASONS.keys()) == []
    # A damaged file is unavailable while it is opened, and corrupt once it is read.
    both = {"STORE_CORRUPT"}
    assert [
        f"{kind} {code}" for kind, code in raised if REASONS[code].kind is not kinds[kind] and code not in both
    ] == []
