"""The reference of the settings has every key, every variable and every mistake."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generator.configuration import MISTAKES
from penstock.app.settings.declarations import every_setting
from penstock.app.settings.model import settings_outline

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"(UNKNOWN|SETTINGS?|SECRET)_[A-Z_]+")


def test_every_key_with_its_variables_and_its_flag_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    for setting in every_setting(settings_outline()):
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{setting.path}` |")]
        wanted = [*setting.variables, *([setting.field.flag] if setting.field.flag else [])]
        assert [name for name in wanted if f"`{name}`" not in row] == []


def test_every_mistake_is_described_and_every_described_mistake_exists() -> None:
    assert set(codes()) == set(MISTAKES)


def codes() -> Iterator[str]:
    """Every text of the modules about settings that looks like the code of a mistake, apart from exported names."""
    for path in (ROOT / "src" / "penstock" / "app" / "settings").glob("*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
                continue
            texts = (str(node.value) for node in ast.walk(statement) if isinstance(node, ast.Constant))
            yield from (text for text in texts if CODE.fullmatch(text))
