"""Values of secrets from variables, files and programs: found when asked for, and never shown."""

import asyncio
import logging
import os
import sys
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.app.executors.secret_checks import secret_problems
from penstock.app.executors.secret_sources import ReferenceSecrets, fill_text, private_texts, resolve_secret
from penstock.app.settings.model import ServerSettings, Settings
from penstock.app.settings.named import AgentSettings, McpServerSettings
from penstock.app.settings.secrets import (
    CommandReference,
    EnvironmentReference,
    FileReference,
    SecretReference,
    describe_reference,
)
from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.activities.routing import Router
from penstock.runtime.secrets import ChainSecrets, EnvironmentSecrets
from tests.unit.runtime.executors.calls import bounded, call_of, done


def program(code: str) -> CommandReference:
    return CommandReference((sys.executable, "-c", code))


def written(path: Path, content: bytes, mode: int = 0o600) -> FileReference:
    path.write_bytes(content)
    path.chmod(mode)
    return FileReference(str(path))


def test_a_value_is_found_in_each_of_the_three_ways(tmp_path: Path) -> None:
    assert resolve_secret(EnvironmentReference("KEY"), {"KEY": "value"}) == "value"
    assert resolve_secret(written(tmp_path / "key", b"value\n")) == "value"
    assert resolve_secret(program("print('value')")) == "value"


def test_only_the_last_line_end_is_left_out(tmp_path: Path) -> None:
    for content, value in ((b"a\nb\n", "a\nb"), (b"a\r\n", "a"), (b" a ", " a "), (b"a\n\n", "a\n")):
        assert resolve_secret(written(tmp_path / "key", content)) == value


def test_what_cannot_be_read_says_why_and_shows_nothing(tmp_path: Path) -> None:
    missing = FileReference(str(tmp_path / "nowhere"))
    large = written(tmp_path / "large", b"hunter2" * limits.SECRET_BYTES_MAX)
    cases: list[tuple[SecretReference, str]] = [
        (EnvironmentReference("KEY"), "env KEY: the variable is not set"),
        (missing, "the file cannot be read: No such file or directory"),
        (written(tmp_path / "binary", b"hunter2\xff"), "it is not text in UTF-8"),
        (written(tmp_path / "empty", b"\n"), "it is empty"),
        (large, f"there are more than {limits.SECRET_BYTES_MAX} bytes"),
        (CommandReference(("no-such-program",)), "command no-such-program: it cannot be started"),
        (program("print('hunter2'); raise SystemExit(3)"), "it ended with 3"),
    ]
    for reference, told in cases:
        with pytest.raises(Unavailable) as caught:
            resolve_secret(reference, {})
        assert told in caught.value.message
        assert caught.value.code == "SECRET_UNREADABLE"
        assert "hunter2" not in f"{caught.value!r}{caught.value}"


def test_a_program_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECRET_COMMAND_SECONDS_MAX", 0.2)
    with pytest.raises(Unavailable, match=r"it did not end within 0\.2 s"):
        resolve_secret(program("import threading; threading.Event().wait()"))


def test_of_a_command_only_the_program_is_shown() -> None:
    assert describe_reference(CommandReference(("echo", "hunter2"))) == "command echo"


def test_a_file_that_everybody_can_read_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reference = written(tmp_path / "open", b"value", 0o644)
    with caplog.at_level(logging.WARNING, "penstock"):
        logging.getLogger("penstock").propagate = True
        assert [resolve_secret(reference), resolve_secret(reference)] == ["value", "value"]
        assert resolve_secret(written(tmp_path / "closed", b"value", 0o640)) == "value"
    assert [record.getMessage() for record in caplog.records] == [
        f"{reference.path} holds a secret, and every user of this machine can read it; run chmod o-rwx"
    ]


def test_named_secrets_are_read_anew_and_those_of_programs_kept_for_a_while(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counting = program(f"open({str(counter)!r}, 'a').write('x'); print(open({str(counter)!r}).read())")
    now = [0.0]
    environment = {"VALUE": "1"}
    secrets = ReferenceSecrets(
        {"PROGRAM": counting, "VARIABLE": EnvironmentReference("VALUE")}, environment, lambda: now[0]
    )
    assert [secrets("PROGRAM"), secrets("PROGRAM"), secrets("VARIABLE"), secrets("OTHER")] == ["x", "x", "1", None]
    environment["VALUE"] = "2"
    now[0] = limits.SECRET_COMMAND_KEPT_SECONDS
    assert [secrets("PROGRAM"), secrets("VARIABLE")] == ["xx", "2"]
    del environment["VALUE"]
    assert secrets("VARIABLE") is None
    assert repr(secrets) == "ReferenceSecrets(PROGRAM, VARIABLE)"


def test_texts_are_filled_once_and_not_again() -> None:
    values = {"A": "${secret:B}", "B": "two"}
    assert fill_text("1 ${secret:A} ${secret:B} $A", values.get) == "1 ${secret:B} two $A"
    with pytest.raises(Unavailable, match="the secret C is not set"):
        fill_text("${secret:C}", values.get)
    texts = private_texts({"plain": "p", "filled": "x${secret:B}", "whole": program("print('w')")}, values.get)
    assert texts == {"plain": "p", "filled": "xtwo", "whole": "w"}


class Seeing:
    """Keeps the arguments it was given."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        return ActivityDone(call.activity.arguments)


def routed(secrets: object) -> ActivityOutcome:
    call = call_of("seeing", {}, {"key": "***"})
    call = replace(call, activity=replace(call.activity, secrets={"/key": "${secret:KEY}"}))
    return bounded(Router(executors={"seeing": Seeing()}, secrets=secrets).perform(call))  # type: ignore[arg-type]


def test_a_source_that_may_block_is_asked_in_a_thread() -> None:
    asked: list[bool] = []

    class Slow:
        may_block = True

        def __call__(self, name: str) -> str | None:
            asked.append(threading.current_thread() is threading.main_thread())
            return name.lower()

    assert done(routed(ChainSecrets(EnvironmentSecrets(environment={}), Slow()))) == {"key": "key"}
    assert done(routed(lambda name: "quick")) == {"key": "quick"}
    assert asked == [False]


def test_an_activity_whose_secret_cannot_be_read_fails_with_the_reason() -> None:
    outcome = routed(ReferenceSecrets({"KEY": FileReference(os.path.join("no", "where"))}))
    assert isinstance(outcome, ActivityError)
    assert outcome.code == "SECRET_UNREADABLE"
    assert "No such file" in outcome.error


def test_settings_are_checked_for_secrets_that_cannot_be_read(tmp_path: Path) -> None:
    settings = Settings(
        server=ServerSettings(secret=EnvironmentReference("NOT_SET_ANYWHERE"), audit_key=program("print('x')")),
        secrets={"GOOD": program("print('x')"), "OPEN": written(tmp_path / "open", b"x", 0o644)},
        mcp_servers={"a": McpServerSettings(url="http://x", headers={"authorization": "Bearer ${secret:GONE}"})},
        agents={"b": AgentSettings(url="http://x", api_key=EnvironmentReference("NOT_SET_ANYWHERE"))},
    )
    found = [problem.to_json() for problem in secret_problems(settings)]
    assert [(problem["name"], problem["severity"]) for problem in found] == [
        ("server.secret", "error"),
        ("secrets.OPEN", "warning"),
        ("mcp_servers.a.headers.authorization", "error"),
        ("agents.b.api_key", "error"),
    ]


def test_no_event_loop_is_needed_to_ask() -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    assert ReferenceSecrets({"KEY": program("print('x')")})("KEY") == "x"
