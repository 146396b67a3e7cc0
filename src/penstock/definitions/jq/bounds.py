"""Decides whether the work of a jq program is bounded by the size of its input.

Every node gets a bound on the number of its outputs and on their total size. Each bound is a sum of a constant, a
multiple of its input's size and a multiple of the root's size. A program is bounded when all bounds stay linear with
small factors: then a small root means little work, and the program may run inside the server. Products of two sizes,
recursion, ranges, regular expressions and everything not listed here are unbounded. Such programs are still correct,
but run in a worker process with a time limit. Sizes are bytes of JSON.

Above it: `text` and `expressions`. Below it: `syntax`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.definitions.jq.syntax import ASSIGNMENTS, COMPARISONS, Node, NodeKind

__all__ = ["has_linear_bound"]

# A result may be this many times as large as the values it is made from.
FACTOR_MAX = 128.0
CONSTANT_MAX = 100_000.0


@dataclass(frozen=True, slots=True)
class _Linear:
    """`constant + of_input * size of the input + of_root * size of the root`."""

    constant: float = 0.0
    of_input: float = 0.0
    of_root: float = 0.0

    @property
    def fixed(self) -> bool:
        return self.of_input == 0.0 and self.of_root == 0.0

    def __add__(self, other: "_Linear") -> "_Linear":
        return _Linear(self.constant + other.constant, self.of_input + other.of_input, self.of_root + other.of_root)

    def __mul__(self, other: "_Linear") -> "_Linear":
        scaled, by = (other, self) if self.fixed else (self, other)
        if not by.fixed:
            raise _Unbounded
        factor = by.constant
        return _Linear(scaled.constant * factor, scaled.of_input * factor, scaled.of_root * factor)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The largest number of outputs, and their largest total size."""

    count: _Linear
    size: _Linear


class _Unbounded(Exception):
    pass


ONE = _Linear(constant=1.0)
SCALAR = _Bound(ONE, ONE)
SAME = _Bound(ONE, _Linear(constant=1.0, of_input=1.0))
# An element takes at least one character and a comma.
EACH = _Bound(_Linear(of_input=0.5), _Linear(of_input=1.0))

# No arguments: the result is a scalar.
SCALAR_FUNCTIONS = frozenset(
    {
        *("all", "any", "ceil", "exp", "exp10", "exp2", "fabs", "floor", "fromdate", "fromdateiso8601", "isfinite"),
        *("isinfinite", "isnan", "isnormal", "length", "log", "log10", "log2", "mktime", "not", "round", "sqrt"),
        *("toboolean", "todate", "todateiso8601", "tonumber", "trunc", "type", "utf8bytelength"),
    }
)
# No arguments: the result is at most this many times as large as the input.
LINEAR_FUNCTIONS = {
    **dict.fromkeys(("abs", "add", "arrays", "ascii_downcase", "ascii_upcase", "booleans", "empty", "error"), 1.0),
    **dict.fromkeys(("first", "flatten", "from_entries", "fromjson", "implode", "iterables", "keys", "last"), 1.0),
    **dict.fromkeys(("keys_unsorted", "ltrim", "max", "min", "nulls", "numbers", "objects", "reverse", "rtrim"), 1.0),
    **dict.fromkeys(("scalars", "sort", "strings", "trim", "unique", "values"), 1.0),
    # A quote or backslash becomes two characters.
    **dict.fromkeys(("tojson", "tostring"), 2.0),
    # A character becomes a number and a comma; an entry gets the words "key" and "value".
    **dict.fromkeys(("explode", "gmtime", "to_entries"), 4.0),
}
# The worst case: a quote becomes `&#39;` in @html.
FORMAT_FACTOR = 5.0
# One argument, evaluated on the input and compared with it or cut from it.
ARGUMENT_FUNCTIONS = frozenset(
    {"endswith", "has", "ltrimstr", "rtrimstr", "startswith", "strftime", "strptime", "trimstr"}
)
# One argument; the cost is only linear when that argument is a literal.
LITERAL_FUNCTIONS = frozenset({"contains", "index", "indices", "join", "nth", "rindex", "split"})
# One argument, evaluated on each element to decide about it.
ELEMENT_FUNCTIONS = frozenset({"all", "any", "group_by", "max_by", "min_by", "sort_by", "unique_by"})
STRING_CALLS = frozenset({"ascii_downcase", "ascii_upcase", "tojson", "tostring", "type"})
NUMBER_CALLS = frozenset({"length", "tonumber", "utf8bytelength", "floor", "ceil", "round", "trunc", "sqrt", "fabs"})


def has_linear_bound(node: Node) -> bool:
    """Whether the work of the program is at most a small multiple of the size of its input."""
    try:
        _bound(node, _Linear(of_root=1.0), {})
    except _Unbounded:
        return False
    return True


def _bound(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    """The bound of a node. `reach` is its input in terms of the root; `variables` are in terms of the input."""
    return _limited(_bound_of_kind(node, reach, variables))


def _limited(bound: _Bound) -> _Bound:
    for linear in (bound.count, bound.size):
        if linear.constant > CONSTANT_MAX or linear.of_input + linear.of_root > FACTOR_MAX:
            raise _Unbounded
    return bound


def _bound_of_kind(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    match node.kind:
        case NodeKind.IDENTITY:
            return SAME
        case NodeKind.LITERAL:
            length = len(node.value) if isinstance(node.value, str) else 0
            return _Bound(ONE, _Linear(constant=1.0 + length))
        case NodeKind.VARIABLE if node.value in variables:
            return _Bound(ONE, variables[str(node.value)])
        case NodeKind.FORMAT:
            return _linear(FORMAT_FACTOR)
        case NodeKind.PIPE:
            return _pipe(node.children, reach, variables)
        case NodeKind.COMMA:
            return _sum([_bound(child, reach, variables) for child in node.children])
        case NodeKind.CALL:
            return _call(node, reach, variables)
        case NodeKind.BINARY:
            return _binary(node, reach, variables)
        case NodeKind.INDEX | NodeKind.SLICE | NodeKind.ITERATE:
            return _access(node, reach, variables)
        case _:
            return _structured(node, reach, variables)


def _access(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    if node.kind is NodeKind.ITERATE:
        return _then(_bound(node.children[0], reach, variables), EACH)
    if node.kind is NodeKind.INDEX and not _is_scalar(node.children[1]):
        # Indexing a list with a list searches for it.
        raise _Unbounded
    return _crossed(node.children, reach, variables)


def _structured(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    parts = node.children
    match node.kind:
        case NodeKind.NEGATE:
            return _scalars(_bound(parts[0], reach, variables))
        case NodeKind.COLLECT:
            inner = _sum([_bound(part, reach, variables) for part in parts])
            return _Bound(ONE, ONE + inner.size + inner.count)
        case NodeKind.OBJECT:
            return _crossed(parts, reach, variables)
        case NodeKind.TEXT:
            crossed = _crossed(parts, reach, variables)
            fixed = _Linear(constant=float(node.value or 0.0))
            return _Bound(crossed.count, crossed.size * _Linear(constant=FORMAT_FACTOR) + fixed * crossed.count)
        case NodeKind.ATTEMPT:
            return _attempt(parts, reach, variables)
        case NodeKind.IF:
            return _if(parts, reach, variables)
        case NodeKind.BIND if len(parts) == 2:  # noqa: PLR2004  a plain variable, no destructuring
            return _bind(node, reach, variables)
        case _:
            raise _Unbounded


def _pipe(stages: tuple[Node, ...], reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    bound = _bound(stages[0], reach, variables)
    # From the second stage on, the input is a different one, so the variables are expressed in terms of the root.
    outer = {name: _in_root(size, reach) for name, size in variables.items()}
    for stage in stages[1:]:
        bound = _limited(_then(bound, _bound(stage, _in_root(bound.size, reach), outer)))
    return bound


def _then(first: _Bound, second: _Bound) -> _Bound:
    """The bound of `first | second`: the second runs once for each output of the first."""
    return _Bound(_applied(second.count, first), _applied(second.size, first))


def _applied(linear: _Linear, inputs: _Bound) -> _Linear:
    fixed = _Linear(constant=linear.constant, of_root=linear.of_root)
    return fixed * inputs.count + inputs.size * _Linear(constant=linear.of_input)


def _in_root(size: _Linear, reach: _Linear) -> _Linear:
    """Express a size that depends on an input in terms of the root alone."""
    return replace(size, of_input=0.0) + reach * _Linear(constant=size.of_input)


def _sum(bounds: list[_Bound]) -> _Bound:
    total = _Bound(_Linear(), _Linear())
    for bound in bounds:
        total = _Bound(total.count + bound.count, total.size + bound.size)
    return total


def _cross(left: _Bound, right: _Bound) -> _Bound:
    """Every output of `left` combined with every output of `right`."""
    return _Bound(left.count * right.count, left.size * right.count + right.size * left.count)


def _crossed(nodes: tuple[Node, ...], reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    bound = SCALAR
    for node in nodes:
        bound = _cross(bound, _bound(node, reach, variables))
    return bound


def _scalars(bound: _Bound) -> _Bound:
    return _Bound(bound.count, bound.count)


def _linear(factor: float) -> _Bound:
    return _Bound(ONE, _Linear(constant=factor, of_input=factor))


def _attempt(parts: tuple[Node, ...], reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    body = _bound(parts[0], reach, variables)
    if len(parts) == 1:
        return body
    # The handler sees the argument of `error`, or a message of limited length.
    error = _Bound(ONE, body.size + _Linear(constant=200.0, of_input=1.0))
    outer = {name: _in_root(size, reach) for name, size in variables.items()}
    handler = _bound(parts[1], _in_root(error.size, reach), outer)
    return _sum([body, _then(error, handler)])


def _if(parts: tuple[Node, ...], reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    *pairs, otherwise = parts
    result = _bound(otherwise, reach, variables)
    for condition, then in zip(pairs[-2::-2], pairs[-1::-2], strict=True):
        branches = _sum([_bound(then, reach, variables), result])
        result = _cross(_scalars(_bound(condition, reach, variables)), branches)
    return result


def _bind(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    source = _bound(node.children[0], reach, variables)
    inner = {**variables, node.names[0]: source.size}
    body = _bound(node.children[1], reach, inner)
    return _Bound(body.count * source.count, body.size * source.count)


def _binary(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    left, right = node.children
    operator = str(node.value)
    if operator in ASSIGNMENTS:
        raise _Unbounded
    if operator == "//":
        return _sum([_bound(child, reach, variables) for child in node.children])
    crossed = _cross(_bound(left, reach, variables), _bound(right, reach, variables))
    if operator in COMPARISONS or operator in ("and", "or", "%"):
        return _scalars(crossed)
    if operator == "*" and not (_is_number(left) and _is_number(right)):
        # Multiplying a text by a number repeats the text.
        raise _Unbounded
    if operator == "-" and not (_is_scalar(left) or _is_scalar(right)):
        # The difference of two lists compares every element with every other.
        raise _Unbounded
    return _Bound(crossed.count, crossed.size * _Linear(constant=4.0)) if operator == "/" else crossed


def _call(node: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    name = str(node.value)
    if not node.children:
        if name in SCALAR_FUNCTIONS:
            return SCALAR
        if name in LINEAR_FUNCTIONS:
            return _linear(LINEAR_FUNCTIONS[name])
        raise _Unbounded
    if len(node.children) == 1:
        return _call_with_one(name, node.children[0], reach, variables)
    if name == "limit" and _is_number(node.children[0]):
        return _crossed(node.children, reach, variables)
    if name in ("all", "any"):
        return _scalars(_pipe(node.children, reach, variables))
    raise _Unbounded


def _call_with_one(name: str, argument: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    if name in ELEMENT_FUNCTIONS or name in ("map", "with_entries"):
        return _each_element(name, argument, reach, variables)
    bound = _bound(argument, reach, variables)
    if name == "select":
        return _cross(_scalars(bound), SAME)
    if name in ("first", "last", "error", "add"):
        return bound
    if name == "isempty":
        return _scalars(bound)
    if name in ARGUMENT_FUNCTIONS:
        return _cross(bound, SAME)
    if name in LITERAL_FUNCTIONS and argument.kind is NodeKind.LITERAL:
        # `join` writes the argument between all elements; `split` may turn every character into a quoted text.
        return _linear(4.0 + bound.size.constant / 2.0)
    raise _Unbounded


def _each_element(name: str, argument: Node, reach: _Linear, variables: Mapping[str, _Linear]) -> _Bound:
    elements = EACH if name != "with_entries" else _then(_linear(LINEAR_FUNCTIONS["to_entries"]), EACH)
    outer = {name: _in_root(size, reach) for name, size in variables.items()}
    results = _then(elements, _bound(argument, _in_root(elements.size, reach), outer))
    collected = _Bound(ONE, ONE + results.size + results.count)
    if name in ELEMENT_FUNCTIONS:
        return _Bound(ONE, collected.size + SAME.size)
    return collected


def _is_scalar(node: Node) -> bool:
    """Whether a node certainly gives text, a number, true, false or null."""
    match node.kind:
        case NodeKind.LITERAL | NodeKind.TEXT | NodeKind.FORMAT | NodeKind.NEGATE:
            return True
        case NodeKind.CALL:
            return not node.children and str(node.value) in STRING_CALLS | SCALAR_FUNCTIONS
        case NodeKind.PIPE:
            return _is_scalar(node.children[-1])
        case NodeKind.BINARY:
            return node.value in COMPARISONS or node.value in ("and", "or", "%") or _is_number(node)
        case _:
            return False


def _is_number(node: Node) -> bool:
    match node.kind:
        case NodeKind.LITERAL:
            return isinstance(node.value, float)
        case NodeKind.NEGATE:
            return True
        case NodeKind.CALL:
            return not node.children and str(node.value) in NUMBER_CALLS
        case NodeKind.PIPE:
            return _is_number(node.children[-1])
        case NodeKind.BINARY:
            return node.value in ("+", "-", "*", "/", "%") and all(_is_number(child) for child in node.children)
        case _:
            return False
