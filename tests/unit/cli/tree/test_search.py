"""A command that does not exist is answered with the nearest one, wherever it is in the tree."""

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.tree.search import find_nearest, refuse_unknown


@pytest.mark.parametrize(
    ("group", "word", "found"),
    [
        ("", "approve", ["approval approve"]),
        ("", "workflw", ["workflow"]),
        ("", "migrate", ["server migrate"]),
        ("", "migrat", ["server migrate"]),
        ("", "health", ["graph health", "server health"]),
        ("graph", "branches", ["graph branch"]),
        ("server", "bakup", ["server backup"]),
        ("runs", "retri", ["runs retry"]),
        ("", "list_backups", ["server list-backups"]),
        ("workflow", "run", ["workflow runs", "run", "graph query run"]),
        ("", "zzzzzz", []),
    ],
)
def test_the_nearest_commands_are_found(group: str, word: str, found: list[str]) -> None:
    assert find_nearest(group, word) == found


def test_at_most_three_are_named_and_the_own_group_comes_first() -> None:
    found = find_nearest("webhook", "retry")
    assert found[0] == "webhook delivery retry"
    assert len(find_nearest("", "list")) == 3


def test_the_suggestion_has_the_other_words_so_that_it_can_be_pasted() -> None:
    said = refuse_unknown("", ["approve", "draft 1", "--note", "fine"])
    assert said == (
        "There is no command `penstock approve`. Did you mean `penstock approval approve 'draft 1' --note fine`?"
    )


def test_a_word_that_is_near_nothing_is_answered_with_where_the_list_is() -> None:
    assert refuse_unknown("key", ["zzzzzz"]) == (
        "There is no command `penstock key zzzzzz`. `penstock key --help` lists the commands."
    )


def test_the_command_line_says_so_and_exits_with_2() -> None:
    refused = CliRunner().invoke(app, ["approve", "draft-1"], prog_name="penstock", env={"COLUMNS": "120"})
    assert refused.exit_code == 2
    assert "Did you mean `penstock approval approve draft-1`?" in refused.stderr
