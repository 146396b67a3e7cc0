"""What a command says to do about an error names commands, and is never missing for a code that we declare."""

import pytest

from penstock.base.errors import Conflict, Denied, NotFound, Rejected, Unavailable
from penstock.cli.terminal.hints import command_hint, in_commands
from penstock.client.errors import CLIENT_REASONS
from penstock.operations.catalogue.reasons import LOCAL_REASONS, REASONS


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("list them with workflow.list", "list them with `penstock workflow list`"),
        ("list them with `workflow.list`.", "list them with `penstock workflow list`."),
        ("lease it with `execution.lease_activity`", "lease it with `penstock runs lease`"),
        ("choose one from graph.queries_list", "choose one from `penstock graph query list`"),
        ("set `limits.concurrent_per_key`", "set `limits.concurrent_per_key`"),
        ("see docs.workflow.list and /workflow.list", "see docs.workflow.list and /workflow.list"),
        ("open workflow.list.yaml", "open workflow.list.yaml"),
        ("a word.like this", "a word.like this"),
    ],
)
def test_names_of_operations_become_commands(text: str, told: str) -> None:
    assert in_commands(text) == told


def test_a_hint_of_the_call_comes_first() -> None:
    assert command_hint(Rejected("PROFILE_INVALID", "no", "write it anew")) == "write it anew"


def test_a_code_without_a_hint_has_its_remedy() -> None:
    assert command_hint(NotFound("DRAFT_NOT_FOUND", "no")) == "list the drafts with `penstock approval drafts`"
    assert command_hint(Unavailable("CONNECTION_FAILED", "no")) == CLIENT_REASONS["CONNECTION_FAILED"].hint
    assert command_hint(Conflict("A_CODE_OF_SOMEBODY_ELSE", "no")) is None


def test_a_missing_key_is_explained_for_commands() -> None:
    assert "PENSTOCK_API_KEY" in str(command_hint(Denied("UNAUTHENTICATED", "no key", "send a header")))


def test_every_code_has_a_hint_on_the_command_line() -> None:
    for code, reason in {**REASONS, **LOCAL_REASONS, **CLIENT_REASONS}.items():
        assert command_hint(reason.kind(code, "no")), code
