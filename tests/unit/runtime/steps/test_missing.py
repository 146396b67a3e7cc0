"""A handler that no step has is explained: by the close name, the module, the file, or what to configure."""

from pathlib import Path

import pytest

from penstock.runtime.steps.missing import handler_hint

NAMES = ["steps:find_order", "steps:refund"]


@pytest.mark.parametrize(
    ("handler", "names", "hint"),
    [
        ("steps:refnud", NAMES, "did you mean `steps:refund`?"),
        ("payments:refund", NAMES, "did you mean `steps:refund`?"),
        (
            "steps:cancel",
            NAMES,
            "`steps` has `find_order`, `refund`; declare `cancel` there with @step, or correct the name",
        ),
        (
            "payments:cancel",
            NAMES,
            "payments.py is in this folder and not loaded: list it under `steps.modules` in penstock.yaml, or pass "
            "`--steps payments.py`",
        ),
        (
            "paymnets:cancel",
            [],
            "payments.py is in this folder and not loaded: list it under `steps.modules` in penstock.yaml, or pass "
            "`--steps payments.py`",
        ),
        (
            "mail:send",
            NAMES,
            "there is `steps:find_order`, `steps:refund`; list it under `steps.modules` in penstock.yaml, or pass "
            "`--steps FILE`",
        ),
        (
            "mail:send",
            [],
            "no steps are loaded: list their file under `steps.modules` in penstock.yaml, pass `--steps FILE`, or "
            "register them with Penstock.open(steps=[…])",
        ),
    ],
    ids=["function_close", "other_module", "not_in_module", "file_not_loaded", "file_close", "elsewhere", "nothing"],
)
def test_a_missing_handler_says_what_to_do(handler: str, names: list[str], hint: str, tmp_path: Path) -> None:
    (tmp_path / "payments.py").write_text("", encoding="utf-8")
    assert handler_hint(handler, names, tmp_path) == hint
