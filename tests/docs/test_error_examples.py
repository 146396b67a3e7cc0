"""Every code has an example, and each example is what the code says today."""

from docs.generator.error_examples import (
    ALL_REASONS,
    every_example,
    is_hint_of,
    is_said_by_source,
    read_examples,
    written_examples,
)

# Codes without an example: the places that use them take their texts from elsewhere, and no recorded test meets them.
# A code leaves this list when an example is recorded, and none is added.
WITHOUT = frozenset(
    {
        "AUDIT_CHAIN_BROKEN",
        "CLIENT_DISCONNECTED",
        "DOCUMENT_TOO_COSTLY",
        "GRANT_NOT_FOUND",
        "GRAPH_CONSTRAINTS_VIOLATED",
        "JQ_INVALID",
        "PACK_NODE_UNSUPPORTED",
        "POLICY_NOT_FOUND",
        "ROW_CHANGED",
        "RUN_STARTER_UNKNOWN",
        "SIGNER_NOT_TRUSTED",
        "STORE_BUSY",
        "TASK_NOT_WITHDRAWN",
        "VERSION_PROPOSED",
        "WEBHOOK_MAKER_UNKNOWN",
    }
)


def test_every_code_has_an_example() -> None:
    assert set(ALL_REASONS) - set(every_example()) == WITHOUT


def test_an_example_of_the_source_has_the_words_of_the_place_that_refuses() -> None:
    written = written_examples()
    assert written["DRAFT_NOT_FOUND"].message == "there is no draft DRAFT_ID"
    assert written["WORKFLOW_NAME_DIFFERS"].message == "the document is named NAME, not WORKFLOW_ID"


def test_an_example_is_of_a_code_that_exists() -> None:
    assert set(read_examples()) <= set(ALL_REASONS)


def test_an_example_is_what_the_source_says() -> None:
    advice = (
        "run: python -m pytest -p docs.generator.error_examples --record-errors PATH, with the tests of the refusal"
    )
    stale = {
        code
        for code, example in read_examples().items()
        if not is_said_by_source(example.message) or not is_hint_of(code, example.hint)
    }
    assert stale == set(), advice


def test_a_text_that_the_source_does_not_say_is_found() -> None:
    assert is_said_by_source("nobody has written this sentence into the source") is False
    assert is_said_by_source("the key first was revoked") is True
    assert is_said_by_source("the key first has been revoked") is False
