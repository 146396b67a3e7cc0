"""Settings from file, environment and flags: one precedence, every mistake at once, and an origin for every value."""

import json
import os
import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from docs.generator.configuration import MISTAKES
from penstock.app.settings.declarations import every_setting
from penstock.app.settings.model import Settings, settings_outline
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.app.settings.sources import InvalidSettings, LoadedSettings, load_settings
from penstock.definitions.source.findings import Finding
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[4]
# Of the work of importing what checks documents, which every command needs as well.
IMPORT_SHARE_MAX = 0.3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(text: str = "", environment: dict[str, str] | None = None, **flags: object) -> LoadedSettings:
    if text:
        Path("penstock.yaml").write_text(text, encoding="utf-8")
    named = {path.replace("__", "."): value for path, value in flags.items()}
    return load_settings(environment=environment or {}, flags=named)


def findings(text: str = "", environment: dict[str, str] | None = None, **flags: object) -> tuple[Finding, ...]:
    with pytest.raises(InvalidSettings) as caught:
        loaded(text, environment, **flags)
    return caught.value.findings


def only(text: str = "", environment: dict[str, str] | None = None, **flags: object) -> Finding:
    [finding] = findings(text, environment, **flags)
    return finding


def test_without_any_source_everything_is_at_its_default() -> None:
    found = loaded()
    assert found.settings == Settings()
    assert {str(origin) for origin in found.origins.values()} == {"default"}
    assert (found.file, found.ignored) == (None, ())


def test_a_later_source_wins_and_says_so() -> None:
    text = "server:\n  host: file.example\n  port: 1\n  drain_seconds: 1\n"
    environment = {"PENSTOCK_SERVER_PORT": "2", "PENSTOCK_SERVER_DRAIN_SECONDS": "2"}
    found = loaded(text, environment, server__port="3")
    server = found.settings.server
    assert (server.host, server.drain_seconds, server.port) == ("file.example", 2.0, 3)
    origins = {name: str(found.origins[f"server.{name}"]) for name in ("host", "drain_seconds", "port", "base_path")}
    assert origins == {
        "host": "penstock.yaml:2:3",
        "drain_seconds": "environment PENSTOCK_SERVER_DRAIN_SECONDS",
        "port": "flag --port",
        "base_path": "default",
    }


def test_every_key_has_a_description_and_a_variable_of_its_own() -> None:
    settings = list(every_setting(settings_outline()))
    variables = [name for setting in settings for name in setting.variables]
    assert len(variables) == len(set(variables))
    assert all(setting.field.description.endswith(".") for setting in settings)
    assert {setting.path.replace(".", "_").upper() for setting in settings} <= {
        name.removeprefix("PENSTOCK_") for name in variables
    }


@pytest.mark.parametrize(
    "name",
    [
        "PENSTOCK_SERVER_MCP_PATH",
        "MCP_SERVER_PATH",
        "COMPOZY_SERVER_MCP_PATH",
    ],
)
def test_the_path_of_the_mcp_server_has_several_variables(name: str) -> None:
    found = loaded(environment={name: "/tools"})
    assert found.settings.server.mcp.path == "/tools"
    assert str(found.origins["server.mcp.path"]) == f"environment {name}"


@pytest.mark.parametrize("prefix", ["PENSTOCK", "COMPOZY"])
@pytest.mark.parametrize("rest", ["PROTOCOL_VERSION", "PROTOCOL"])
def test_the_protocol_version_has_two_spellings_in_two_families(prefix: str, rest: str) -> None:
    environment = {f"{prefix}_SERVER_MCP_{rest}": "2025-03-26", "COMPOZY_SERVER_MCP_ENABLED": "false"}
    mcp = loaded(environment=environment).settings.server.mcp
    assert (mcp.protocol_version, mcp.enabled) == ("2025-03-26", False)


def test_of_several_variables_the_first_that_is_documented_counts() -> None:
    environment = {"COMPOZY_SERVER_MCP_PATH": "/c", "MCP_SERVER_PATH": "/b", "PENSTOCK_SERVER_MCP_PATH": "/a"}
    assert loaded(environment=environment).settings.server.mcp.path == "/a"
    environment["PENSTOCK_SERVER_MCP_PATH"] = ""
    assert loaded(environment=environment).settings.server.mcp.path == "/b"


def test_the_mcp_settings_have_the_defaults_that_were_asked_for() -> None:
    mcp = Settings().server.mcp
    assert (mcp.enabled, mcp.path, mcp.tool_prefix, mcp.max_concurrent_requests) == (True, "/mcp", "penstock", 100)
    assert mcp.exclude_endpoints == ("/api/v0/admin/*", "/api/v0/internal/*")
    assert [mcp.request_timeout, mcp.sse_heartbeat_interval, mcp.sse_retry_interval] == [
        timedelta(seconds=seconds) for seconds in (30, 15, 5)
    ]


def test_texts_of_variables_are_read_as_their_keys_need_them() -> None:
    environment = {
        "PENSTOCK_HTTP_ALLOW_PRIVATE": "Yes",
        "PENSTOCK_WORKFLOWS_PATHS": "flows, more ,",
        "PENSTOCK_STEPS_MODULES": '["a.py", "b,c.py"]',
        "PENSTOCK_SERVER_GZIP_MIN_BYTES": "null",
        "PENSTOCK_SERVER_SYNC_WAIT_SECONDS": "1m",
        "PENSTOCK_RETENTION_RUNS": "30d",
        "PENSTOCK_STORAGE_SYNCHRONOUS": "normal",
        "PENSTOCK_SECRETS": '{"KEY": {"env": "OTHER"}}',
        "PENSTOCK_DB": "other.db",
    }
    settings = loaded(environment=environment).settings
    assert settings.http.allow_private is True
    assert (settings.workflows.paths, settings.steps.modules) == (("flows", "more"), ("a.py", "b,c.py"))
    assert (settings.server.gzip_min_bytes, settings.server.sync_wait_seconds) == (None, 60.0)
    assert settings.retention.runs == timedelta(days=30)
    assert (settings.storage.synchronous, settings.storage.path) == ("NORMAL", "other.db")
    assert settings.secrets == {"KEY": EnvironmentReference("OTHER")}


def test_all_mistakes_of_all_sources_are_found_at_once_with_their_places() -> None:
    text = 'server:\n  prot: 80\n  port: "eighty"\nstorage: 7\n'
    environment = {"PENSTOCK_LIMITS_READ_PER_MINUTE": "many", "PENSTOCK_SERVER_MCP_ENABLE": "1"}
    found = findings(text, environment, server__host="")
    assert [(finding.location, finding.code) for finding in found] == [
        ("penstock.yaml:2:3", "UNKNOWN_SETTING"),
        ("penstock.yaml:3:3", "SETTING_INVALID"),
        ("penstock.yaml:4:1", "SETTING_INVALID"),
        ("environment PENSTOCK_LIMITS_READ_PER_MINUTE", "SETTING_INVALID"),
        ("environment PENSTOCK_SERVER_MCP_ENABLE", "UNKNOWN_VARIABLE"),
        ("flag --host", "SETTING_INVALID"),
    ]
    assert found[0].hint == "did you mean `port`?"
    assert found[1].message == "`server.port` must be a whole number from 0 to 65535, not the text 'eighty'"
    assert found[4].hint == "did you mean `PENSTOCK_SERVER_MCP_ENABLED`?"
    assert {finding.code for finding in found} <= set(MISTAKES)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("port: 80", "did you mean `server.port`?"),
        ("server.port: 80", "write `port` below `server`, without the dot"),
        ("mcpServer: {}", "did you mean `mcp_servers`?"),
        ("penstock: v1", "this looks like a workflow; settings have no version line"),
        ("limits: {stream_per_key: 5}", "this is `server.streams.per_key`"),
        ("telemetry: {colour: 1}", "there is metrics_public, trace_url"),
    ],
)
def test_an_unknown_key_is_answered_with_where_to_look(text: str, hint: str) -> None:
    finding = only(text)
    assert (finding.code, finding.hint) == ("UNKNOWN_SETTING", hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server: {port: 70000}", "`server.port` must be a whole number from 0 to 65535, not the number 70000"),
        ("server: {port: true}", "`server.port` must be a whole number from 0 to 65535, not true"),
        ("server: {port: 80.5}", "`server.port` must be a whole number from 0 to 65535, not the number 80.5"),
        ("server: {docs_enabled: 1}", "`server.docs_enabled` must be true or false, not the number 1"),
        ("server: {host: null}", "`server.host` must be a host name or an address of this machine, not null"),
        ("logging: {level: loud}", "`logging.level` must be one of debug, info, warning, error, not the text 'loud'"),
        ("steps: {modules: steps.py}", "`steps.modules` must be a list; each item a file (steps.py) or the name"),
        ("steps: {modules: [1]}", "`steps.modules[0]` must be a file (steps.py) or the name of a module, not"),
        ("server: {trusted_proxies: [proxy]}", "`server.trusted_proxies[0]` must be an address or a network such as"),
        (
            "http: {allow_hosts: ['a b']}",
            "`http.allow_hosts[0]` must be a host name, `*.name`, an address or a network",
        ),
        ("server: {streams: {heartbeat_seconds: 1ms}}", "must be a number of seconds from 0.1 to 3600, or a length"),
        ("idempotency: {ttl: 1s}", "such as 30s, 10m or 7d, at least 1m, not the text '1s'"),
        ("- a\n", "the file must be an object with server, storage,"),
        ("secrets: {'a b': {env: X}}", "`a b` in `secrets` must be a name as in ${secret:NAME}"),
        ("models: {a: {model: b}}", "`models.a` needs `provider`"),
        ("models: {a: {provider: openai, prices: {input_per_million: 1}}}", "needs `output_per_million`"),
        ("models: {a: {provider: openai-compatible}}", "`models.a` needs `base_url`"),
        ("models: {a: {provider: openia}}", "must be a provider that is supported, not `openia`"),
        (
            "models: {a: {provider: deepseek, base_url: 'https://x.example'}}",
            "`models.a.base_url` is not for `deepseek`",
        ),
        ("models: {a: {provider: openai, limits: {cost_per_day: 1}}}", "which needs `prices`"),
        ("models: {a: {provider: openai, fallbacks: [b]}}", "names `b`, which is not in `models`"),
        (
            "models: {a: {provider: openai, fallbacks: [b]}, b: {provider: openai, fallbacks: [a]}}",
            "lead back to it: a → b → a",
        ),
        ("models: {a: {provider: mock}}", "`models.a` needs `replies`"),
        ("mcp_servers: {a: {command: uvx, url: 'http://x'}}", "`mcp_servers.a` must have either `command`"),
        ("mcp_servers: {a: {url: 'http://x', args: [b]}}", "`mcp_servers.a.args` is for servers that are started"),
        ("agents: {a: {type: mcp}}", "`agents.a` needs `server` and `tool`"),
        ("agents: {a: {url: 'http://x', tool: b}}", "`agents.a.tool` is not for agents of the type `a2a`"),
    ],
)
def test_a_wrong_value_is_told_what_was_expected(text: str, message: str) -> None:
    finding = only(text)
    assert message in finding.message
    assert finding.code == "SETTING_INVALID"
    assert finding.position is not None


def test_a_length_of_time_needs_its_unit_and_seconds_may_be_a_number() -> None:
    finding = only("server: {mcp: {request_timeout: 30}}")
    assert finding.hint == "write the unit: 30s or 30ms"
    settings = loaded("server: {mcp: {request_timeout: 1h30m}, drain_seconds: 2.5}").settings
    assert settings.server.mcp.request_timeout == timedelta(hours=1, minutes=30)
    assert settings.server.drain_seconds == 2.5


@pytest.mark.parametrize(
    "text",
    [
        "models: {a: {provider: openai, api_key: hunter2}}",
        "secrets: {KEY: hunter2}",
        "mcp_servers: {a: {url: 'http://x', headers: {Authorization: Bearer hunter2}}}",
        "mcp_servers: {a: {command: uvx, env: {GITHUB_TOKEN: hunter2}}}",
    ],
)
def test_a_secret_in_plain_text_is_refused_with_the_ways_to_refer_to_it_and_not_repeated(text: str) -> None:
    Path("penstock.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSettings) as caught:
        load_settings(environment={})
    [finding] = caught.value.findings
    assert finding.code == "SECRET_IN_SETTINGS"
    assert "{env: NAME}, {file: PATH} or {command: [" in (finding.hint or "")
    assert "hunter2" not in f"{caught.value}{caught.value.details}{finding}"


def test_a_variable_that_only_sounds_like_a_secret_is_none() -> None:
    env = {"MAX_TOKENS": "100", "TOKENIZERS_PARALLELISM": "false", "AWS_ACCESS_KEY_ID": "id"}
    settings = loaded(f"mcp_servers: {{a: {{command: uvx, env: {json.dumps(env)}}}}}").settings
    assert settings.mcp_servers["a"].env == env


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    finding = only("mcp_servers: {a: {url: 'https://me:hunter2@mcp.example/'}}")
    assert "without a password" in finding.message
    assert "hunter2" not in finding.message


def test_json_in_a_variable_that_cannot_be_read_is_not_repeated() -> None:
    finding = only(environment={"PENSTOCK_MODELS": '{"a": hunter2}'})
    assert finding.message == "`models` must be JSON; Expecting value at character 7"


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("{env: A_B}", EnvironmentReference("A_B")),
        ("{file: /run/secrets/a}", FileReference("/run/secrets/a")),
        ("{command: [pass, show, a]}", CommandReference(("pass", "show", "a"))),
    ],
)
def test_a_secret_is_referred_to_in_three_ways(text: str, reference: object) -> None:
    assert loaded(f"secrets: {{KEY: {text}}}").settings.secrets == {"KEY": reference}


@pytest.mark.parametrize(
    "text", ["{}", "{env: A, file: b}", "{env: 'a b'}", "{command: ls}", "{command: []}", "{evn: A}"]
)
def test_a_reference_that_cannot_be_followed_is_refused(text: str) -> None:
    assert only(f"secrets: {{KEY: {text}}}").code == "SETTING_INVALID"


def test_variables_of_others_are_ignored_and_listed() -> None:
    environment = {
        "PENSTOCK_COLOUR": "blue",
        "PENSTOCK_SECRET_STRIPE": "value",
        "PENSTOCK_SERVICE_PORT": "80",
        "PENSTOCK_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_PORT": "tcp://10.0.0.1:80",
        "PENSTOCK_PORT_80_TCP_ADDR": "10.0.0.1",
        "PENSTOCK_PYTHON": "python3",
        "COMPOZY_SERVER_MCP_COLOUR": "blue",
        "HOME": "somewhere",
    }
    assert loaded(environment=environment).ignored == ("PENSTOCK_COLOUR",)


def test_what_kubernetes_sets_for_a_service_of_the_same_name_is_explained() -> None:
    finding = only(environment={"PENSTOCK_SERVER_PORT": "tcp://10.0.0.1:80"})
    assert "enableServiceLinks" in (finding.hint or "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PENSTOCK_SERVER_PROT", "PENSTOCK_SERVER_PORT"),
        ("PENSTOCK_SEVER_PORT", "PENSTOCK_SERVER_PORT"),
        ("PENSTOCK_LOG_LEVEL", "PENSTOCK_LOGGING_LEVEL"),
        ("PENSTOCK_SERVER_MAX_BODY", "PENSTOCK_SERVER_MAX_BODY_BYTES"),
    ],
)
def test_a_misspelt_variable_is_an_error(name: str, meant: str) -> None:
    finding = only(environment={name: "1"})
    assert (finding.code, finding.hint) == ("UNKNOWN_VARIABLE", f"did you mean `{meant}`?")


def test_a_file_is_named_by_argument_then_by_variable_then_found(folder: Path) -> None:
    for name, port in (("penstock.yaml", 1), ("other.yaml", 2), ("third.json", 3)):
        (folder / name).write_text(f'{{"server": {{"port": {port}}}}}', encoding="utf-8")
    assert load_settings(environment={}).settings.server.port == 1
    assert load_settings(environment={"PENSTOCK_CONFIG": "other.yaml"}).settings.server.port == 2
    third = load_settings("third.json", {"PENSTOCK_CONFIG": "other.yaml"})
    assert (third.settings.server.port, third.file) == (3, "third.json")


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InvalidSettings) as caught:
        load_settings("nowhere.yaml", {})
    [finding] = caught.value.findings
    assert (finding.location, finding.code) == ("nowhere.yaml", "SETTINGS_UNREADABLE")
    assert finding.message == "the file cannot be read: No such file or directory"


def test_a_file_that_is_no_text_is_an_error() -> None:
    Path("penstock.yaml").write_bytes(b"server: \xff")
    with pytest.raises(InvalidSettings) as caught:
        load_settings(environment={})
    assert "not text in UTF-8" in caught.value.findings[0].message


@pytest.mark.parametrize("text", ["\n", "# nothing\n---\n", "server:\n", "~"])
def test_a_file_that_says_nothing_sets_nothing(text: str) -> None:
    assert loaded(text).settings == Settings()


def test_relative_paths_in_a_file_start_at_its_folder(folder: Path) -> None:
    (folder / "etc").mkdir()
    (folder / "etc" / "penstock.yaml").write_text(
        "storage: {path: data.db}\nworkflows: {paths: [flows]}\nsteps: {modules: [steps.py, shop.steps]}\n"
        "auth: {pepper_file: /run/pepper}\nsecrets: {KEY: {file: key}}\n",
        encoding="utf-8",
    )
    settings = load_settings("etc/penstock.yaml", {"PENSTOCK_WORKFLOWS_PATHS": "here"}).settings
    assert settings.storage.path == os.path.join("etc", "data.db")
    assert settings.workflows.paths == ("here",)
    assert settings.steps.modules == (os.path.join("etc", "steps.py"), "shop.steps")
    assert settings.auth.pepper_file == "/run/pepper"
    assert settings.secrets == {"KEY": FileReference(os.path.join("etc", "key"))}


def test_the_address_of_a_database_stays_as_it_is(folder: Path) -> None:
    (folder / "etc").mkdir()
    (folder / "etc" / "penstock.yaml").write_text("storage: {path: 'postgresql://host/name'}\n", encoding="utf-8")
    assert load_settings("etc/penstock.yaml", {}).settings.storage.path == "postgresql://host/name"
    assert (
        load_settings(environment={"PENSTOCK_DB": "postgresql://host/b"}).settings.storage.path == "postgresql://host/b"
    )


def test_the_secret_of_the_server_is_a_reference_and_comes_from_one_place() -> None:
    settings = loaded("server: {secret: {env: SERVER_SECRET}, audit_key: {command: [pass, audit]}}").settings
    assert settings.server.secret == EnvironmentReference("SERVER_SECRET")
    assert settings.server.audit_key == CommandReference(("pass", "audit"))
    both = only("server: {secret: {env: SERVER_SECRET}}\nauth: {pepper_file: /run/pepper}")
    assert both.message == "`server.secret` and `auth.pepper_file` both say where the server's secret is"
    written = only("server: {secret: 0a0a0a0a}")
    assert (written.code, "0a0a0a0a" in written.message) == ("SECRET_IN_SETTINGS", False)


@pytest.mark.parametrize("member", ["secret", "audit_key"])
def test_no_document_can_name_the_source_of_a_key_of_the_server(member: str) -> None:
    for readable in (
        f"server: {{{member}: {{env: PENSTOCK_SECRET_OWN}}}}",
        f"server: {{{member}: {{file: own}}}}\nsecrets: {{OWN: {{file: own}}}}",
    ):
        assert only(readable).message == f"documents can read the source of `server.{member}` as `${{secret:NAME}}`"
    apart = loaded(f"server: {{{member}: {{env: OWN}}}}\nsecrets: {{OWN: {{env: OTHER}}}}").settings
    assert getattr(apart.server, member) == EnvironmentReference("OWN")


def test_a_path_may_begin_with_the_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    settings = loaded("storage: {path: ~/runs.db}\nsecrets: {KEY: {file: ~/key}}").settings
    assert settings.storage.path == "/somewhere/runs.db"
    assert settings.secrets == {"KEY": FileReference("/somewhere/key")}


def test_settings_must_fit_together() -> None:
    shorter = only("server: {sync_wait_max_seconds: 10}")
    assert (shorter.location, "30 s is longer than 10 s" in shorter.message) == ("penstock.yaml:1:10", True)
    same = only("# nothing", {"PENSTOCK_SERVER_MCP_PATH": "/api/v0"})
    assert same.location == "environment PENSTOCK_SERVER_MCP_PATH"
    taken = only("mcp_servers:\n  client: {url: 'https://mcp.example/'}\n")
    assert (taken.location, taken.hint) == ("penstock.yaml:2:3", "give it another name")
    program = only("mcp_servers:\n  a: {command: /bin/bash}\n")
    assert (program.location, program.hint) == ("penstock.yaml:2:7", "add bash to `mcp_allow_commands`")
    agent = only("mcp_servers: {shop: {command: uvx}}\nagents:\n  a: {type: mcp, server: shp, tool: b}\n")
    assert (agent.location, agent.hint) == ("penstock.yaml:3:18", "did you mean `shop`?")


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    found = loaded("server: {port: 1}", server__port=None, steps__modules=["a.py"], server__host=Path("localhost"))
    assert (found.settings.server.port, found.settings.steps.modules) == (1, ("a.py",))
    assert str(found.origins["steps.modules"]) == "flag --steps"


def test_the_error_says_the_first_mistakes_and_survives_pickling() -> None:
    with pytest.raises(InvalidSettings) as caught:
        loaded("a: 1\nb: 2\nc: 3\nd: 4\n")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.findings == caught.value.findings
    assert "and 1 more" in again.message
    assert len(again.details["findings"]) == 4


def test_settings_are_read_quickly(tmp_path: Path) -> None:
    # Calls of functions are counted, not time: they are the same every time, on a slow machine and on a busy one.
    program = (
        "import sys; calls = [0]\n"
        "def count(frame, event, argument): calls[0] += event in ('call', 'c_call')\n"
        "sys.setprofile(count); import penstock.definitions.validate; before = calls[0]\n"
        "import penstock.app.settings.sources; sys.setprofile(None)\n"
        "print((calls[0] - before) / before)"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    shares = [
        float(subprocess.check_output(command, env=environment, text=True, timeout=SECONDS_MAX)) for _ in range(2)
    ]
    # The first compiles.
    assert shares[1] < IMPORT_SHARE_MAX


def test_queries_of_a_graph_are_files_or_names_with_their_files() -> None:
    found = loaded(
        "graphs:\n"
        "  crm: {schema: crm.pg, queries: queries, protected_branches: [main]}\n"
        "  hr: {schema: hr.pg, queries: {find: {file: find.gq, mcp: {expose: false, tool_name: find_it}}}}\n"
    ).settings.declared_graphs
    assert found["crm"].queries == ("queries",)
    queries = found["hr"].queries
    assert isinstance(queries, dict)
    assert (queries["find"].file, queries["find"].mcp.expose, queries["find"].mcp.tool_name) == (
        "find.gq",
        False,
        "find_it",
    )


def test_the_only_graph_is_called_default_and_stands_beside_no_other() -> None:
    assert list(loaded("graph: {schema: crm.pg}\n").settings.declared_graphs) == ["default"]
    finding = only("graph: {schema: crm.pg}\ngraphs: {hr: {schema: hr.pg}}\n")
    assert "the only graph" in finding.message
    assert "needs `graph.schema`" in only("graph: {queries: [a.gq]}\n").message


def test_mistakes_in_graphs_are_found_together() -> None:
    found = findings(
        "graphs:\n"
        "  crm: {queries: queries, on_broken: explode}\n"
        "  'a b': {schema: b.pg}\n"
        "  hr: {schema: hr.pg, queries: {a: {file: a.gq}, b: {file: b.gq, mcp: {tool_name: a}}}}\n"
    )
    told = " ".join(finding.message for finding in found)
    assert all(text in told for text in ("needs `schema`", "on_broken", "`a b`", "the same name as tools"))
