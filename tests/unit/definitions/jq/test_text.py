"""What can be told about a jq program from its text; libjq itself is the judge where it can be."""

import jq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base import limits
from penstock.definitions.jq.syntax import parse_program
from penstock.definitions.jq.text import (
    FORBIDDEN_FUNCTIONS,
    constant_is_too_large,
    forbidden_uses,
    is_bounded,
    root_keys,
    simple_path,
)
from penstock.definitions.jq.tokens import TokenKind, tokenize


def names(program: str) -> list[str]:
    return [use.name for use in forbidden_uses(program)]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("now", ["now"]),
        (".a | now", ["now"]),
        ("now - 1, env", ["now", "env"]),
        ("$ENV.PATH", ["$ENV"]),
        ("{$ENV}", ["$ENV"]),
        ("{$__loc__}", ["$__loc__"]),
        ("$__loc__.line", ["$__loc__"]),
        ('"at \\(now)"', ["now"]),
        ('"at \\("x\\(now)")"', ["now"]),
        ('@base64 "\\(env)"', ["env"]),
        ('."\\(now)"', ["now"]),
        ("{(now | tostring): 1}", ["now"]),
        ("{a: now}", ["now"]),
        ("{a: 1 | now}", ["now"]),
        ("[.[] | debug]", ["debug"]),
        ("debug(.)", ["debug"]),
        ("try input catch .", ["input"]),
        ("# a comment\nnow", ["now"]),
        ("# a comment \\\\\nnow", ["now"]),
        ("def f: now; 1", ["now"]),
        ('import "a" as a; a::x', ["import"]),
        ('include "a"; x', ["include"]),
        ("module {}; 1", ["module"]),
        ("get_search_list", ["get_search_list"]),
        ("localtime", ["localtime"]),
        ("halt_error(1)", ["halt_error"]),
        ("input_line_number", ["input_line_number"]),
    ],
)
def test_calls_of_forbidden_names_are_found(program: str, expected: list[str]) -> None:
    assert names(program) == expected


@pytest.mark.parametrize(
    "program",
    [
        ".now",
        ".a.now.env",
        '."now"',
        '.["now"]',
        "{now: 1}",
        "{now}",
        "{a, now, env: .b}",
        '{"now": 1, input: 2}',
        ". as {now: $x} | $x",
        ". as $now | $now",
        '"now"',
        '"# now"',
        '"\\\\(now)"',
        "1 # now",
        "1 # now \\\nnow",
        ".knows | nowhere",
        "gmtime | mktime | todate",
        'strptime("%Y") | strftime("%Y")',
        "{import: 1, include, module}",
    ],
)
def test_data_of_the_same_name_is_allowed(program: str) -> None:
    assert names(program) == []


def test_a_forbidden_use_has_its_offset_and_reason() -> None:
    (use,) = forbidden_uses(".a + now")
    assert use.offset == 5
    assert "clock" in use.reason


def libjq_sees_a_call(program: str) -> bool | None:
    """Whether libjq takes any `now` in a program for a call; None when it is no program at all."""
    try:
        jq.compile(program)
    except ValueError:
        return None
    try:
        jq.compile(program.replace("now", "nowx"))
    except ValueError as error:
        return "nowx/0 is not defined" in str(error)
    return False


CHUNKS = [
    *(
        "now",
        ".now",
        ".a.now",
        '."now"',
        '.["now"]',
        "$now",
        "{now}",
        "{now: 1}",
        "{now: now}",
        "{a, now}",
        "{(now): 1}",
    ),
    *(
        '{"now": 1}',
        '{"\\(now)": 1}',
        "[now]",
        "(now)",
        "-now",
        "now?",
        "now as $x",
        ". as {now: $x}",
        "(. as $now",
        "$now)",
    ),
    *('"now"', '"\\(now)"', '"\\\\(now)"', '"\\\\\\(now)"', '"\\"now"', '"\\u0022now"', '"a\\("\\(now)")b"', '"# now"'),
    *(
        '@json "now"',
        '@json "\\(now)"',
        "@now",
        '{@text "now": 1}',
        "{if: now}",
        "{now: 1 | now}",
        "try now catch .now",
    ),
    *(
        "# now\n1",
        "# now\\\nnow\n1",
        "# \\\\\nnow",
        "# \\\r\nnow\n1",
        "# \r\nnow",
        "# \rnow\n1",
        "1# now",
        '"#" # "now',
        '# "\nnow',
    ),
    *(
        "if now then 1 else 2 end",
        "reduce .[]? as $now (0; $now)",
        "def f: .now; f",
        "def f(now): now; f(1)",
        "known",
        "now_",
        "_now",
        "a::now",
    ),
]


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=3), st.sampled_from([" | ", ",", "\n|\r\n", " // ", "|"]))
def test_libjq_and_the_deny_list_agree_on_what_is_a_call(chunks: list[str], joint: str) -> None:
    program = joint.join(chunks)
    seen = libjq_sees_a_call(program)
    if seen is not None and "def f(now)" not in program:
        assert bool(names(program)) is seen


PIECES = [
    *(
        "now",
        " ",
        "\n",
        "\r",
        "#",
        "\\",
        '"',
        "\\(",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        ".",
        "|",
        "a",
        "1",
        "$",
        "?",
    )
]


@given(st.sampled_from(CHUNKS), st.lists(st.sampled_from(PIECES), max_size=5), st.sampled_from(CHUNKS))
def test_no_call_that_libjq_sees_escapes(first: str, pieces: list[str], last: str) -> None:
    program = first + "".join(pieces) + last
    if libjq_sees_a_call(program):
        assert names(program)


def test_the_deny_list_names_real_builtins() -> None:
    builtins = {entry.partition("/")[0] for entry in jq.compile("builtins").input_text("null").first()}
    assert set(FORBIDDEN_FUNCTIONS) - {"input_filename"} <= builtins


def test_tokens_cover_the_program() -> None:
    program = '.a["b"] as $x | @base64 "t\\(.c + 1.5e3)" // {d} ?// .. # end'
    tokens = tokenize(program)
    assert [token.kind for token in tokens if token.kind is TokenKind.INVALID] == []
    for token in tokens:
        assert token.text in program[token.offset : token.offset + len(token.text) + 1]


@given(st.text(max_size=30))
def test_no_text_makes_the_tokenizer_fail(text: str) -> None:
    offsets = [token.offset for token in tokenize(text)]
    assert offsets == sorted(offsets)
    forbidden_uses(text)
    is_bounded(text)
    root_keys(text)
    constant_is_too_large(text)


@pytest.mark.parametrize(
    ("program", "path"),
    [
        (".", ()),
        (".a", ("a",)),
        (' .a . b["c"]."d e" ', None),
        ('.a.b["c"]."d e"', ("a", "b", "c", "d e")),
        ('."a"', ("a",)),
        ('.["\\u00e9"]', ("é",)),
        (".a # comment", ("a",)),
        ("(.a)", ("a",)),
        (".a[0]", None),
        (".a?", None),
        (".a | .b", None),
        (".a[]", None),
        ('."\\(1)"', None),
        ("1", None),
        ("", None),
        (".a.", None),
    ],
)
def test_simple_paths(program: str, path: tuple[str, ...] | None) -> None:
    assert simple_path(program) == path


@pytest.mark.parametrize(
    ("program", "keys"),
    [
        (".a.b > 3 and .c", {"a", "c"}),
        (".a | .b", {"a"}),
        ("{a: .x, b}", {"x", "b"}),
        ('"\\(.a) and \\(.b.c)"', {"a", "b"}),
        (". as $root | .a + $root.b", {"a", "b"}),
        ("[.items[] | select(.x > $limit)]", {"items"}),
        ("reduce .items[] as $i (0; . + $i.price)", {"items"}),
        ("if .a then .b else .c.d end", {"a", "b", "c"}),
        ("try .a catch .b", {"a"}),
        ("select(.a) | .b", {"a", "b"}),
        ("any(.items[]; .ok)", {"items"}),
        (".a.b | empty", {"a"}),
        (".a[.b]", {"a", "b"}),
        ("null | .a", set()),
        ('"text"', set()),
        (".", None),
        ("..", None),
        ("keys", None),
        ("map(.a)", None),
        (".a = 1", None),
        ("del(.a)", None),
        ("def f: .a; f", None),
        (". as {a: $x} | $x", None),
        (".[.a]", None),
        ("{a: .}", None),
        ("not valid (", None),
    ],
)
def test_root_keys_are_named_only_when_they_are_certain(program: str, keys: set[str] | None) -> None:
    assert root_keys(program) == (None if keys is None else frozenset(keys))


@pytest.mark.parametrize(
    "program",
    [
        ".",
        ".a.b > 3 and .c",
        "[.items[] | select(.x > 1)] | length",
        ".items | map(.price) | add",
        '"Refund \\(.amount) for \\(.id)?"',
        "{a: .x, b: (.y // 0)}",
        "if .a then .b else .c end",
        "with_entries(select(.value != null))",
        "group_by(.k) | map({k: .[0].k, n: length})",
        'to_entries | map(.key) | join(", ")',
        "sort_by(.a) | .[0]",
        "first(.a[])",
        "any(.items[]; .ok)",
        ".a[1:3]",
        "[.items[] | . as $i | $i.a + $i.b]",
        ". as $r | .a + $r.b",
        '.x | split(",") | map(tonumber)',
        ".a - 1",
        "(.a | tonumber) * (.b | tonumber)",
        ".t | fromdate | todate",
        "try (.a | error) catch .",
    ],
)
def test_everyday_programs_are_bounded(program: str) -> None:
    assert is_bounded(program)


@pytest.mark.parametrize(
    "program",
    [
        "range(5)",
        "last(range(1e12))",
        "[limit(3; repeat(1))]",
        "def f: f; f",
        "recurse",
        "..",
        "while(true; .)",
        "until(false; .)",
        'test("a")',
        'sub("a"; "b")',
        'split("a"; null)',
        "combinations",
        "paths",
        "walk(.)",
        "reduce .[] as $x (.; [., .])",
        ".a * .b",
        '"=" * .n',
        ".a - .b",
        ".a[.b]",
        "[.a[] + .b[]]",
        "{a: .x[], b: .y[]}",
        ".[] as $a | .[] as $b | 1",
        ". as $r | [.items[] | {r: $r}]",
        ". as $r | map($r)",
        " | ".join(["[., .]"] * 10),
        "[" + ", ".join(["."] * 200) + "]",
        "tojson | tojson | tojson | tojson | tojson | tojson | tojson | tojson",
        ".a = 1",
        "unknown_function",
        "label $out | 1, break $out",
        "(" * 50 + "." + ")" * 50,
        "contains(.b)",
        "input",
    ],
)
def test_programs_that_could_do_much_work_are_not_bounded(program: str) -> None:
    assert not is_bounded(program)


@pytest.mark.parametrize(
    ("program", "too_large"),
    [
        ('"=" * 80', False),
        (f'"=" * {limits.JQ_CONSTANT_CHARACTERS_MAX + 1}', True),
        ('1e9 * "x"', True),
        ('("x" + "y") * 99999999', True),
        ('"x" * 1e5 * 1e5', True),
        ('def f: "x" * 1e9; 1', True),
        ('if false then "x" * 1e9 else 1 end', True),
        ("(" * 50 + '"x" * 1e9' + ")" * 50, True),
        ("(" * 50 + '"x" + 1e9' + ")" * 50, False),
        ('"total: \\(.a * 1e9)"', False),
        (".a * 1e9", False),
        ("1e9 * 1e9", False),
    ],
)
def test_constants_that_libjq_would_build_while_compiling_are_measured(program: str, too_large: bool) -> None:
    assert constant_is_too_large(program) is too_large


@pytest.mark.parametrize(
    "program",
    [
        '.a as [$x, {b: $y, $z, "c": $w, ("d"): $v}] | $x + $y',
        "reduce .[] as [$a, $b] (0; . + $a)",
        "foreach .[] as $x (0; . + $x; [$x, .])",
        "def f(g; $x): g + $x; f(.a; 1)",
        'try error("x") catch .',
        '{a: 1, "b": 2, ("c"): 3, $__prog, @text "d": 4, if: 5, e: 1 | 2,}',
        "if . then 1 elif .a then 2 end",
        ".a[1:], .a[:1], .a[1:2], .a.[0], .a?.b?[0]?",
        "- .a - -1 % 2 // 3",
        ".. | .a?, ..[0]?",
        ".a |= . + 1 | .b //= 2",
        ". as [$a] ?// $a | $a",
    ],
)
def test_the_parser_knows_all_of_the_grammar(program: str) -> None:
    assert parse_program(program) is not None
