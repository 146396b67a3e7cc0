"""What can be learned about a jq program from its text, without running it.

This module has the deny-list of built-ins that would make a run depend on more than its history. It also has the bound
that decides where a program may run, and the parts of the root that it reads. The tokens, the tree and the two analyses
are in `tokens`, `syntax`, `bounds` and `reads`; `expressions` compiles and evaluates.
"""

from dataclasses import dataclass
from math import isfinite

from penstock.base import limits
from penstock.definitions.jq.bounds import has_linear_bound
from penstock.definitions.jq.reads import reads_of
from penstock.definitions.jq.syntax import ASSIGNMENTS, Node, NodeKind, parse_program
from penstock.definitions.jq.tokens import Token, TokenKind, tokenize

__all__ = [
    "ForbiddenUse",
    "constant_is_too_large",
    "forbidden_uses",
    "formats_used",
    "is_bounded",
    "may_give_non_finite",
    "path_of",
    "root_keys",
    "simple_path",
]

CLOCK = "it reads the clock, so a replay would get another value; take the time from the data (`.run.started_at`)"
INPUT = "there is only one input; use paths such as `.input.name`"
ENVIRONMENT = "it reads the environment of the server"
OUTPUT = "it writes to the server's own output"
HALT = 'it stops the program without a result; use `error("…")` or `empty`'
PLACE = "its value depends on how the program is written or installed, not on the data"
TIME_ZONE = "it depends on the time zone of the server; use `gmtime` or `strftime`"
MODULE = "modules are files of the server; write the definition into the expression"

FORBIDDEN_FUNCTIONS = {
    "now": CLOCK,
    "localtime": TIME_ZONE,
    "strflocaltime": TIME_ZONE,
    "input": INPUT,
    "inputs": INPUT,
    "input_filename": PLACE,
    "input_line_number": PLACE,
    "env": ENVIRONMENT,
    "debug": OUTPUT,
    "stderr": OUTPUT,
    "halt": HALT,
    "halt_error": HALT,
    "builtins": PLACE,
    "get_jq_origin": PLACE,
    "get_prog_origin": PLACE,
    "get_search_list": PLACE,
    "have_decnum": PLACE,
    "have_literal_numbers": PLACE,
    "modulemeta": MODULE,
}
FORBIDDEN_VARIABLES = {
    "ENV": ENVIRONMENT,
    "__loc__": PLACE,
    "__prog_args": PLACE,
    "__prog_name": PLACE,
}
FORBIDDEN_KEYWORDS = {"import": MODULE, "include": MODULE, "module": MODULE}

# Calls whose results contain no new numbers, or only counts.
FINITE_CALLS = frozenset(
    {
        *(
            "all",
            "any",
            "arrays",
            "ascii_downcase",
            "ascii_upcase",
            "booleans",
            "contains",
            "empty",
            "endswith",
            "error",
        ),
        *("explode", "first", "flatten", "from_entries", "getpath", "group_by", "has", "implode", "in", "index"),
        *("indices", "inside", "isempty", "iterables", "join", "keys", "keys_unsorted", "last", "length", "limit"),
        *("ltrim", "ltrimstr", "map", "max", "max_by", "min", "min_by", "not", "nth", "nulls", "numbers", "objects"),
        *("recurse", "reverse", "rindex", "rtrim", "rtrimstr", "scalars", "select", "sort", "sort_by", "split"),
        *("startswith", "strings", "test", "to_entries", "todate", "tojson", "tostring", "trim", "trimstr", "type"),
        *("unique", "unique_by", "utf8bytelength", "values", "with_entries"),
    }
)
ARITHMETIC = frozenset({"+", "-", "*", "/", "%"}) | ASSIGNMENTS


@dataclass(frozen=True, slots=True)
class ForbiddenUse:
    """A name that a program must not use, where it is (in characters from 0), and why."""

    name: str
    offset: int
    reason: str


def forbidden_uses(program: str) -> tuple[ForbiddenUse, ...]:
    """Return the uses of built-ins that read the clock, the environment or other inputs, or that have side effects.

    Fields and keys with these names (`.now`, `{now: 1}`, `{now}`) are data and allowed.
    """
    uses: list[ForbiddenUse] = []
    # The open brackets and the previous token: together they distinguish a key of an object from a call.
    brackets: list[str] = []
    before = ""
    for token in tokenize(program):
        is_key = bool(brackets) and brackets[-1] == "{" and before in ("{", ",")
        reason = None if is_key and token.kind is not TokenKind.VARIABLE else _reason(token)
        if reason is not None:
            sign = "$" if token.kind is TokenKind.VARIABLE else ""
            uses.append(ForbiddenUse(sign + token.text, token.offset, reason))
        if token.kind is TokenKind.INTERPOLATION_START or (token.kind is TokenKind.OPERATOR and token.text in "([{"):
            brackets.append(token.text)
        elif token.kind is TokenKind.INTERPOLATION_END or (token.kind is TokenKind.OPERATOR and token.text in ")]}"):
            brackets.pop()
        before = token.text if token.kind is TokenKind.OPERATOR else ""
    return tuple(uses)


def formats_used(program: str) -> tuple[str, ...]:
    """The names of the formats (`@base64`, `@csv`, …) in a program, without `@`."""
    return tuple(token.text for token in tokenize(program) if token.kind is TokenKind.FORMAT)


def is_bounded(program: str) -> bool:
    """Whether the work of a program is certainly bounded by a small multiple of its input's size."""
    tree = parse_program(program)
    return tree is not None and has_linear_bound(tree)


def simple_path(program: str) -> tuple[str, ...] | None:
    """The names of a program that is a plain path (`.a.b["c"]`; `.` is the empty path), or None."""
    tree = parse_program(program)
    return None if tree is None else path_of(tree)


def path_of(tree: Node) -> tuple[str, ...] | None:
    """The names of a tree that is a plain path, or None."""
    names: list[str] = []
    while tree.kind is NodeKind.INDEX:
        tree, key = tree.children
        if key.kind is not NodeKind.LITERAL or not isinstance(key.value, str):
            return None
        names.append(key.value)
    return tuple(reversed(names)) if tree.kind is NodeKind.IDENTITY else None


def root_keys(program: str) -> frozenset[str] | None:
    """The members of the root that a program reads, or None when it may read the root as a whole."""
    tree = parse_program(program)
    reads = None if tree is None else reads_of(tree)
    return None if reads is None else frozenset(reads.members)


def may_give_non_finite(tree: Node) -> bool:
    """Whether a program could produce NaN or an infinity, which libjq's bindings would silently replace."""
    match tree.kind:
        case NodeKind.OPAQUE:
            return True
        case NodeKind.BINARY if tree.value in ARITHMETIC:
            return True
        case NodeKind.CALL if tree.value not in FINITE_CALLS:
            return True
        case NodeKind.LITERAL if isinstance(tree.value, float) and not isfinite(tree.value):
            return True
        case _:
            return any(may_give_non_finite(child) for child in tree.children)


def constant_is_too_large(program: str) -> bool:
    """Whether compiling a program might build a huge text: libjq multiplies constants while it compiles."""
    tree = parse_program(program)
    if tree is not None:
        return _has_large_constant(tree)
    tokens = tokenize(program)
    if not any(token.kind is TokenKind.OPERATOR and token.text == "*" for token in tokens):
        return False
    size = float(sum(len(token.text) for token in tokens if token.kind is TokenKind.STRING_TEXT))
    for token in tokens:
        if token.kind is TokenKind.NUMBER:
            size *= max(1.0, float(token.text))
    return size > limits.JQ_CONSTANT_CHARACTERS_MAX


def _has_large_constant(tree: Node) -> bool:
    constant = _constant(tree)
    if constant is not None and constant.is_text and constant.size > limits.JQ_CONSTANT_CHARACTERS_MAX:
        return True
    return any(_has_large_constant(child) for child in tree.children)


@dataclass(frozen=True, slots=True)
class _Constant:
    """A constant text by its length, or a constant number by its value."""

    is_text: bool
    size: float


def _constant(tree: Node) -> _Constant | None:
    if tree.kind is NodeKind.LITERAL and isinstance(tree.value, str):
        return _Constant(is_text=True, size=float(len(tree.value)))
    if tree.kind is NodeKind.LITERAL and isinstance(tree.value, float):
        return _Constant(is_text=False, size=tree.value)
    if tree.kind is not NodeKind.BINARY or tree.value not in ("+", "-", "*", "/"):
        return None
    left, right = (_constant(child) for child in tree.children)
    if left is None or right is None:
        return None
    if tree.value in ("+", "-"):
        return _Constant(is_text=left.is_text, size=left.size + right.size)
    # A division makes texts and numbers smaller, or fails; treating it as a product errs on the safe side.
    return _Constant(is_text=left.is_text or right.is_text, size=abs(left.size * right.size))


def _reason(token: Token) -> str | None:
    match token.kind:
        case TokenKind.IDENTIFIER:
            return FORBIDDEN_FUNCTIONS.get(token.text)
        case TokenKind.KEYWORD:
            return FORBIDDEN_KEYWORDS.get(token.text)
        case TokenKind.VARIABLE:
            return FORBIDDEN_VARIABLES.get(token.text)
        case _:
            return None
