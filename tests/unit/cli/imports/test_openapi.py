"""`penstock tool import openapi`: what it shows, and what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from penstock.app.settings.sources import load_settings
from penstock.cli.main import app

DOCUMENT = """
openapi: 3.1.0
info: {title: The Shop API, version: "1"}
servers: [{url: "https://shop.example/v1"}]
paths:
  /orders:
    get: {operationId: listOrders, summary: List orders}
    post: {operationId: createOrder}
  /orders/{id}:
    delete: {operationId: deleteOrder, parameters: [{name: s, in: cookie, required: true}]}
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-Key}, other: {type: apiKey, in: query, name: k}}
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(DOCUMENT, encoding="utf-8")


def penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["tool", "import", "openapi", *arguments])


def answered(*arguments: str) -> tuple[int, Any]:
    result = penstock(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout or result.stderr)


def test_a_preview_shows_names_sizes_and_what_is_refused_and_writes_nothing() -> None:
    before = sorted(Path().iterdir())
    result = penstock("shop.yaml", "--preview")
    assert result.exit_code == 0, result.output
    for said in (
        "listOrders",
        "GET /orders",
        "writes, risk high",
        "2 operations",
        "refused: DELETE /orders/{id}",
        "X-Key",
    ):
        assert said in result.stdout
    assert sorted(Path().iterdir()) == before


def test_a_preview_as_json_has_every_operation() -> None:
    code, told = answered("shop.yaml", "--preview")
    assert code == 0
    assert [(item["name"], item["risk"]) for item in told["operations"]] == [
        ("createOrder", "high"),
        ("listOrders", "low"),
    ]
    assert told["base_url"] == "https://shop.example/v1"
    assert told["refused"][0]["operation"] == "DELETE /orders/{id}"


def test_an_import_adds_the_api_to_the_settings() -> None:
    Path("penstock.yaml").write_text("# ours\nserver: {port: 6000}\n", encoding="utf-8")
    code, told = answered("shop.yaml", "--operations", "list*")
    assert code == 0
    assert (told["name"], told["operations"]) == ("shop", ["listOrders"])
    assert "# ours" in Path("penstock.yaml").read_text(encoding="utf-8")
    settings = load_settings().settings
    assert settings.server.port == 6000
    assert settings.apis["shop"].import_ is not None
    assert settings.apis["shop"].import_.tools == ("list*",)
    assert Path(settings.apis["shop"].document or "").read_text(encoding="utf-8") == DOCUMENT


def test_settings_that_have_apis_are_left_alone_and_the_entry_is_printed() -> None:
    written = "apis: {other: {url: 'https://other.example/openapi.json'}}\n"
    Path("penstock.yaml").write_text(written, encoding="utf-8")
    result = penstock("shop.yaml", "--operations", "list*", "--name", "store")
    assert result.exit_code == 0, result.output
    assert Path("penstock.yaml").read_text(encoding="utf-8") == written
    entry = yaml.safe_load(result.stdout.partition("settings:\n")[2].partition("\nnext")[0])
    assert entry == {"apis": {"store": {"document": "apis/store.yaml", "import": {"tools": ["list*"]}}}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("shop.yaml",), "--operations"),
        (("shop.yaml", "--operations", "nothing*"), "no operation matches"),
        (("shop.yaml", "--operations", "*", "--name", "a b"), "is not a valid name"),
        (("missing.yaml", "--preview"), "cannot be read"),
        (("http://127.0.0.1:1/openapi.json", "--preview"), "cannot get the document"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_what_to_do(arguments: tuple[str, ...], said: str) -> None:
    result = penstock(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_nothing_is_overwritten() -> None:
    assert penstock("shop.yaml", "--operations", "*").exit_code == 0
    again = penstock("shop.yaml", "--operations", "*")
    assert again.exit_code == 2
    assert "already" in again.stderr
