"""Every code says in one sentence what it means, and in another one what to do; what these name exists."""

import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.app.settings.declarations import Section
from penstock.app.settings.model import settings_outline
from penstock.base.errors import NotFound, Rejected
from penstock.cli.main import app
from penstock.client.errors import CLIENT_REASONS
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.reasons import (
    LOCAL_FAMILIES,
    LOCAL_REASONS,
    REASON_FAMILIES,
    REASONS,
    hint_of,
)

ALL = {**REASONS, **LOCAL_REASONS, **CLIENT_REASONS}
# A new verb is added here once somebody has made sure that it is one.
VERBS = re.compile(
    "Add|Approve|Ask|Bring|Call|Cancel|Change|Check|Choose|Close|Convert|Correct|Create|Decide|Delete|Enable|Export|"
    "Filter|Find|Fork|Free|Give|Go|Import|Install|Keep|Lease|Leave|List|Load|Look|Make|Move|Name|Open|Pass|Propose|Put|"
    "Read|Register|Release|Remove|Rename|Replace|Report|Request|Resolve|Restart|Restore|Resume|Revoke|Rewrite|Run|Save|"
    "Select|Send|Set|Shorten|Sign|Simplify|Split|Start|Stop|Store|Test|Try|Use|Wait|Write"
)
NAMED = re.compile(r"`([a-z_]+(?:\.[a-z_*]+)+)`")
# Members of documents and answers, and settings of entries that have a name of their own.
MEMBERS = frozenset({"error.details", "import.tools", "limits.*", "memory.*"})


@pytest.mark.parametrize("code", ALL)
def test_a_code_has_a_meaning_and_a_remedy_of_one_sentence_each(code: str) -> None:
    reason = ALL[code]
    for text in (reason.meaning, reason.remedy):
        assert re.fullmatch(r"[A-Z][^\n]*[^\s.]\.", text), text
        assert not re.search(r"[.!?] [A-Z]", text), f"more than one sentence: {text}"
    assert VERBS.fullmatch(reason.remedy.split()[0]), reason.remedy
    assert reason.hint[0].islower()
    assert not reason.hint.endswith(".")


def test_no_code_is_declared_twice() -> None:
    families = (*REASON_FAMILIES.values(), *LOCAL_FAMILIES.values(), CLIENT_REASONS)
    assert len(ALL) == sum(map(len, families))


def test_what_a_remedy_names_exists() -> None:
    known = {capability.name for capability in builtin_operations()} | set(setting_names(settings_outline())) | MEMBERS
    named = {name for reason in ALL.values() for name in NAMED.findall(f"{reason.meaning} {reason.remedy}")}
    assert len(named) > 100
    assert sorted(named - known) == []


def test_the_commands_that_a_remedy_names_exist() -> None:
    texts = " ".join(reason.remedy for reason in ALL.values())
    named = set(re.findall(r"`penstock ([a-z][a-z -]*?)(?= [A-Z-]|`)", texts))
    assert len(named) > 10
    assert sorted(name for name in named if not is_command(name)) == []


def setting_names(section: Section) -> Iterator[str]:
    for member in section.members.values():
        yield member.path
        if isinstance(member, Section):
            yield from setting_names(member)


def is_command(words: str) -> bool:
    result = CliRunner().invoke(app, [*words.split(), "--help"])
    return result.exit_code == 0


def cases() -> Iterator[tuple[Rejected | NotFound, str | None]]:
    yield NotFound("WORKFLOW_NOT_FOUND", "there is no workflow x", "did you mean y?"), "did you mean y?"
    yield NotFound("DRAFT_NOT_FOUND", "there is no draft x"), "list the drafts with `draft.list`"
    yield NotFound("DRAFT_NOT_FOUND", "there is no draft x", ""), "list the drafts with `draft.list`"
    yield Rejected("PROFILE_EXISTS", "the profile x already exists"), "replace it with `--replace`"
    yield Rejected("A_CODE_OF_SOMEBODY_ELSE", "no"), None


def test_a_hint_is_the_one_of_the_call_or_the_remedy_of_the_code() -> None:
    for error, hint in cases():
        assert hint_of(error) == hint
