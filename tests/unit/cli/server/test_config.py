"""`penstock config` as a person and a script use it."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner

from penstock.app.settings.declarations import every_setting
from penstock.app.settings.model import settings_outline
from penstock.cli.main import app

ROOT = Path(__file__).parents[4]
SETTINGS = """\
server: {port: 8080}
models:
  default: {provider: openai, api_key: {env: OPENAI_API_KEY}}
secrets: {STRIPE: {file: stripe.key}, OTHER: {command: [pass, show, hunter2]}}
mcp_servers:
  search: {url: "https://mcp.example", headers: {authorization: "Bearer ${secret:STRIPE}", x-key: {env: KEY}}}
"""
runner = CliRunner()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "KEY", "PENSTOCK_DB", "PENSTOCK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def lines_of(*arguments: str, code: int = 0) -> list[str]:
    result = runner.invoke(app, ["config", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout.splitlines()


def test_every_setting_is_shown_with_its_value_and_origin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "penstock.yaml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_SERVER_HOST", "0.0.0.0")
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines_of("show", "--origin")}
    assert list(shown) == [setting.path for setting in every_setting(settings_outline())]
    assert shown["server.host"].split(maxsplit=1) == ["0.0.0.0", "environment PENSTOCK_SERVER_HOST"]
    assert shown["server.port"].split() == ["8080", "penstock.yaml:1:10"]
    assert shown["server.streams.max"].split() == ["10000", "default"]
    assert "default" not in " ".join(lines_of("show", "--changed", "--origin")).replace('{"default":', "")


def test_secrets_are_shown_as_places(folder: Path) -> None:
    (folder / "penstock.yaml").write_text(SETTINGS, encoding="utf-8")
    (folder / "stripe.key").write_text("hunter2", encoding="utf-8")
    told = "\n".join(lines_of("show"))
    assert "(secret from env OPENAI_API_KEY)" in told
    assert "(secret from file stripe.key)" in told
    assert "(secret from command pass)" in told
    assert "hunter2" not in told
    shown = json.loads("\n".join(lines_of("show", "--json", "--changed", "--origin")))
    assert shown["settings"]["secrets"]["STRIPE"] == "(secret from file stripe.key)"
    assert shown["settings"]["mcp_servers"]["search"]["headers"]["x-key"] == "(secret from env KEY)"
    assert shown["origins"]["secrets"] == "penstock.yaml:4:1"
    assert set(shown["settings"]) == {"server", "models", "secrets", "mcp_servers"}


def test_validate_accepts_good_settings_and_names_variables_that_set_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lines_of("validate") == ["ok no file: 0 settings set"]
    (folder / "penstock.yaml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_COLOUR", "blue")
    assert lines_of("validate") == [
        "the variable PENSTOCK_COLOUR sets nothing",
        "ok penstock.yaml: 4 settings set",
    ]
    report = json.loads("\n".join(lines_of("validate", "--json")))
    assert report == {"ok": True, "file": "penstock.yaml", "findings": [], "ignored": ["PENSTOCK_COLOUR"]}


def test_validate_shows_every_mistake_like_a_good_compiler(folder: Path) -> None:
    (folder / "penstock.yaml").write_text("server:\n  prot: 80\nlogging: {level: 3}\n", encoding="utf-8")
    result = runner.invoke(app, ["config", "validate"])
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "penstock.yaml:2:3: error UNKNOWN_SETTING there is no setting `server.prot`",
        "  2 |   prot: 80",
        "    |   ^",
        "  hint: did you mean `port`?",
        "penstock.yaml:3:11: error SETTING_INVALID `logging.level` must be one of debug, info, warning, error, "
        "not the number 3",
        "  3 | logging: {level: 3}",
        "    |           ^",
        "2 mistakes",
    ]
    report = json.loads("\n".join(lines_of("validate", "--json", code=1)))
    assert [(finding["code"], finding["line"]) for finding in report["findings"]] == [
        ("UNKNOWN_SETTING", 2),
        ("SETTING_INVALID", 3),
    ]


@pytest.mark.parametrize(
    "line", ["{provider: openai, api_key: hunter2, modle: x}", "{provider: openai, apikey: hunter2}"]
)
def test_a_line_with_a_secret_is_not_shown_again(folder: Path, line: str) -> None:
    (folder / "penstock.yaml").write_text(f"models:\n  large: {line}\n", encoding="utf-8")
    for command in (["config", "validate"], ["config", "show"], ["config", "show", "--json"], ["runs", "list"]):
        result = runner.invoke(app, command)
        assert result.exit_code == (1 if command[1] == "validate" else 2)
        assert "hunter2" not in result.output
        assert "penstock.yaml" in result.output


def test_validate_reads_secrets_when_it_is_told_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "penstock.yaml").write_text("secrets: {A: {env: FIRST}, B: {file: key}}\n", encoding="utf-8")
    assert lines_of("validate") == ["ok penstock.yaml: 1 setting set"]
    told = lines_of("validate", "--secrets", code=1)
    assert told[0].startswith("secrets.A: error the secret from env FIRST: the variable is not set")
    assert told[1].startswith("secrets.B: error the secret from file key: the file cannot be read")
    monkeypatch.setenv("FIRST", "hunter2")
    (folder / "key").write_text("hunter2", encoding="utf-8")
    (folder / "key").chmod(0o644)
    report = json.loads("\n".join(lines_of("validate", "--secrets", "--json")))
    assert report["ok"] is True
    assert [(problem["name"], problem["severity"]) for problem in report["secrets"]] == [("secrets.B", "warning")]


def test_show_does_not_show_settings_with_mistakes(folder: Path) -> None:
    (folder / "penstock.yaml").write_text("prot: 80\n", encoding="utf-8")
    result = runner.invoke(app, ["config", "show"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the settings have 1 mistake; correct them first" in result.stderr
    problem = json.loads(runner.invoke(app, ["config", "show", "--json"]).stdout)
    assert problem["error"]["code"] == "INVALID_SETTINGS"
    assert problem["error"]["details"]["findings"][0]["line"] == 1


def test_the_schema_accepts_what_is_read_and_refuses_what_is_not() -> None:
    schema = json.loads("\n".join(lines_of("schema")))
    validator = jsonschema_rs.Draft202012Validator(schema)
    good = yaml.safe_load(SETTINGS)
    assert validator.is_valid(good)
    for bad in (
        {"prot": 1},
        {"server": {"port": "80"}},
        {"server": {"mcp": {"request_timeout": 30}}},
        {"secrets": {"A": "hunter2"}},
        {"secrets": {"A": {"env": "X", "file": "y"}}},
        {"models": {"a": {"model": "m"}}},
        {"logging": {"level": "loud"}},
    ):
        assert not validator.is_valid(bad), bad


def test_commands_about_runs_use_the_database_of_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "penstock.yaml").write_text("storage: {path: data/shop.db}\n", encoding="utf-8")
    told = runner.invoke(app, ["runs", "list"])
    assert (told.exit_code, "there is no database data/shop.db" in told.stderr) == (2, True)
    monkeypatch.setenv("PENSTOCK_DB", "other.db")
    assert "there is no database other.db" in runner.invoke(app, ["runs", "list"]).stderr
    assert "there is no database given.db" in runner.invoke(app, ["runs", "list", "--db", "given.db"]).stderr


def test_the_settings_in_the_guide_can_be_used(folder: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "running-workflows.md").read_text(encoding="utf-8")
    text = guide.partition("```yaml\n# penstock.yaml\n")[2].partition("```")[0]
    assert text
    (folder / "penstock.yaml").write_text(text, encoding="utf-8")
    assert lines_of("validate")[0].startswith("ok penstock.yaml")
