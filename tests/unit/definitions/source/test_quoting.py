"""The stumbles of people who write their first workflow are named, with the line as it has to be."""

import pytest

from penstock.definitions.validate import validate_source

BEGIN = "penstock: v1\nname: first\nnodes:\n"
END = "  - {id: done, type: end}\n"


def first_finding(lines: str, end: str = END) -> tuple[str, str, str]:
    """The place, code and hint of the first finding; the line below `nodes` is the fourth."""
    finding = validate_source(BEGIN + lines + end)[0]
    return finding.location, finding.code, finding.hint or ""


@pytest.mark.parametrize(
    ("line", "column", "corrected"),
    [
        ("  - {id: a, type: end, output: {x: ${ .input.x }}}", 36, 'output: {x: "${ .input.x }"}}'),
        ("  - {id: a, type: end, output: {x: ${.input.x}, y: 1}}", 36, 'output: {x: "${.input.x}", y: 1}}'),
        ("  - {id: a, type: end, output: [${ .input.x }, 1]}", 33, 'output: ["${ .input.x }", 1]}'),
        ("  - {id: a, type: end, output: {x: Dear ${ .input.x }}}", 36, 'output: {x: "Dear ${ .input.x }"}}'),
        ("""  - {id: a, type: end, output: {x: ${ .input.x // "you" }}}""", 36, """{x: '${ .input.x // "you" }'}}"""),
        (
            "  - {id: a, type: switch, cases: [{when: ${ .input.x > 1 }, next: done}]}",
            42,
            '[{when: ".input.x > 1", next: ',
        ),
        (
            "  - {id: a, type: switch, cases: [{when: .input.x[0] > 1, next: done}]}",
            42,
            '{when: ".input.x[0] > 1", next',
        ),
    ],
    ids=["mapping", "no_spaces", "list", "text_before", "double_quotes", "condition", "index"],
)
def test_an_expression_without_quotes_is_shown_with_them(line: str, column: int, corrected: str) -> None:
    location, code, hint = first_finding(f"{line}\n")
    assert (location, code) == (f"4:{column}", "SYNTAX_ERROR")
    assert hint.startswith("put it in quotes: `- {id: a,")
    assert corrected in hint


def test_the_corrected_line_is_read_without_findings() -> None:
    line = """  - {id: a, type: end, output: {x: ${ .input.x // "you" }, y: 1}}"""
    _, _, hint = first_finding(f"{line}\n", end="")
    corrected = hint.partition("`")[2].removesuffix("`")
    assert validate_source(f"{BEGIN}  {corrected}\n") == ()


def test_a_long_line_is_shown_from_the_key_on() -> None:
    line = f"  - {{id: a, type: end, output: {{long: {'x' * 200}, x: ${{ .input.x }}}}}}"
    assert first_finding(f"{line}\n")[2] == 'put it in quotes: `x: "${ .input.x }"`'


@pytest.mark.parametrize(
    ("line", "location", "corrected"),
    [
        ("  - {id: a, type: end, output: {x: {{ .input.x }}}}", "4:36", 'output: {x: "${ .input.x }"}}'),
        ("  - {id: a, type: end, output: {x: {{ input.x }}, y: 1}}", "4:36", '{x: "${ .input.x }", y: 1}}'),
        ("  - id: a\n    type: end\n    output:\n      x: {{ name }}", "7:10", 'x: "{{ name }}"'),
    ],
    ids=["jq", "without_the_dot", "placeholder"],
)
def test_double_braces_without_quotes_are_shown_as_they_are_written_here(
    line: str, location: str, corrected: str
) -> None:
    place, code, hint = first_finding(f"{line}\n")
    assert (place, code) == (location, "KEY_NOT_TEXT")
    assert hint.startswith("put it in quotes: `")
    assert corrected in hint


@pytest.mark.parametrize(
    ("when", "plain"),
    [
        ('"${ .input.x > 1 }"', "when: .input.x > 1"),
        ("${ .input.x > 1 }", "when: .input.x > 1"),
        ('"${ .input.x } > 1"', "when: .input.x > 1"),
        ('"{{ .input.x }}"', "when: .input.x"),
        ('"{{ input.x }}"', "when: .input.x"),
    ],
)
def test_a_condition_with_marks_is_shown_as_plain_jq(when: str, plain: str) -> None:
    lines = f"  - id: a\n    type: switch\n    cases:\n      - when: {when}\n        next: done\n    default: done\n"
    assert first_finding(lines) == ("7:9", "JQ_INVALID", f"write `{plain}`")


def test_a_condition_that_is_wrong_without_its_marks_too_is_a_mistake_of_jq() -> None:
    lines = '  - {id: a, type: switch, cases: [{when: "${ .x >> }", next: done}], default: done}\n'
    assert first_finding(lines)[2].startswith("check brackets")


@pytest.mark.parametrize(
    ("lines", "location", "code", "hint"),
    [
        ("  - id: done\n\ttype: end\n", "5:1", "SYNTAX_ERROR", "indent with spaces, not tabs"),
        ("  - id: done\n     type: end\n", "5:10", "SYNTAX_ERROR", "check the indentation: keys of one object"),
        ("  - id: done\n   type: end\n", "5:4", "SYNTAX_ERROR", "check the indentation: items of one list"),
        ("  - {id: done, type: edn}\n", "4:16", "UNKNOWN_NODE_TYPE", "did you mean `end`?"),
        (
            "  - {id: a, type: set_state, set: {x: 1}, next: dnoe}\n" + END,
            "4:43",
            "UNKNOWN_TARGET",
            "did you mean `done`?",
        ),
        (END + "expose: {tool: yes}\n", "5:10", "INVALID_VALUE", "write `true`: in YAML, `yes` is a text"),
        (
            END + "triggers: [{schedule: {cron: '0 6 * * *'}, enabled: off}]\n",
            "5:44",
            "INVALID_VALUE",
            "write `false`: in YAML, `off` is a text",
        ),
    ],
    ids=["tab", "deeper", "shallower", "type", "next", "yes", "off"],
)
def test_other_stumbles_have_their_place_and_what_to_do(lines: str, location: str, code: str, hint: str) -> None:
    place, found, told = first_finding(lines, end="")
    assert (place, found, told[: len(hint)]) == (location, code, hint)


@pytest.mark.parametrize("line", ["  - {id: done, type: end, output: {a: [1, 2, c}}", "  - {id: a, type: [end, {x: 1}"])
def test_brackets_of_yaml_that_are_not_closed_are_not_taken_for_an_expression(line: str) -> None:
    assert "put it in quotes" not in first_finding(f"{line}\n")[2]
