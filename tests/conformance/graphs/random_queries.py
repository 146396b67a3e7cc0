"""Random small graphs and random queries over the schema of `worlds`, for Hypothesis.

Queries are drawn as text and go through the parser and the type checker; whatever they refuse is not asked.
"""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.definitions.source.findings import Severity
from penstock.graph.query.read import read_queries
from penstock.graph.schema.model import Schema
from penstock.graph.typing.check import check_query
from penstock.graph.typing.model import CheckedQuery

__all__ = ["PARAMETERS", "checked_or_none", "queries", "records"]

NAMES = ("ada", "bob", "cyd", "dan")
TEAMS = ("red", "blue")
PARAMETERS = "$n: String, $i: I32?, $s: String?, $f: F64?, $l: [String]?, $k: [I32], $b: Bool?, $d: Date?"

_NUMBERS = st.sampled_from([0, 1, 2, 30])
_TEXTS = st.sampled_from(["", "a", "ab", "ä", "x%y", "ada"])


def _person() -> st.SearchStrategy[dict[str, object]]:
    maybe = {
        "age": _NUMBERS,
        "mood": st.sampled_from(["calm", "glad", "sad"]),
        "tags": st.lists(_TEXTS, max_size=2).map(tuple),
        "bio": _TEXTS,
        "score": st.sampled_from([-1.5, 0.0, 0.1, 2.0]),
        "born": st.sampled_from(["2000-01-01", "2001-06-30"]),
        "seen": st.sampled_from([0, 1_000, 1_700_000_000_000]),
        "active": st.booleans(),
    }
    return st.fixed_dictionaries({}, optional=maybe)


@st.composite
def records(draw: st.DrawFn) -> dict[str, list[tuple[object, ...]]]:
    """People, teams and edges between them, as plain values."""
    people = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    teams = draw(st.lists(st.sampled_from(TEAMS), unique=True, max_size=2))
    found: dict[str, list[tuple[object, ...]]] = {
        "Person": [(name, draw(_person())) for name in people],
        "Team": [(slug, {"title": draw(_TEXTS)}) for slug in teams],
        "Knows": [],
        "Likes": [],
        "LeadBy": [],
    }
    if people:
        ends = st.tuples(st.sampled_from(people), st.sampled_from(people))
        weight = st.sampled_from([None, 0.1, 1.0])
        found["Knows"] = [(*pair, {"weight": draw(weight)}) for pair in draw(st.lists(ends, max_size=6))]
        found["Likes"] = [(*pair, {}) for pair in draw(st.lists(ends, max_size=4))]
    if people and teams:
        led = st.tuples(st.sampled_from(teams), st.sampled_from(people))
        found["LeadBy"] = [(*pair, {}) for pair in draw(st.lists(led, unique=True, max_size=3))]
    return found


_VARIABLES = ("p", "q", "r")
_PERSON_FIELDS = ("name", "age", "mood", "bio", "score", "born", "seen", "active")


def _value(draw: st.DrawFn, name: str) -> str:
    choices = {
        "name": ["$n", '"ada"', "$s"],
        "age": ["1", "30", "$i", "$f"],
        "mood": ['"calm"', '"sad"', "$s"],
        "bio": ['"a"', '"ab"', '"%"', "$s"],
        "score": ["0.1", "2", "$f", "$i"],
        "born": ['date("2000-01-01")', "$d"],
        "seen": ['datetime("1970-01-01T00:00:01Z")', "now()"],
        "active": ["true", "false", "$b"],
    }
    return draw(st.sampled_from(choices[name]))


def _condition(draw: st.DrawFn, variables: list[str], depth: int = 0) -> str:
    variable = draw(st.sampled_from(variables))
    kind = draw(st.integers(0, 12 if depth < 2 else 6))
    name = draw(st.sampled_from(_PERSON_FIELDS))
    if kind <= 2:
        operators = ["=", "!="] if name == "active" else ["=", "!=", "<", "<=", ">", ">="]
        return f"${variable}.{name} {draw(st.sampled_from(operators))} {_value(draw, name)}"
    if kind == 3:
        return f"${variable}.tags contains {draw(st.sampled_from(['$s', chr(34) + 'a' + chr(34)]))}"
    if kind == 4:
        operator = draw(st.sampled_from(["contains", "starts_with"]))
        text = draw(st.sampled_from(['"a"', '"%"', '""', "$s"]))
        return f"${variable}.bio {operator} {text}"
    if kind == 5:
        negated = draw(st.sampled_from(["", "not "]))
        return f"${variable}.{name} is {negated}null"
    if kind == 6:
        what = draw(st.sampled_from([("age", "$k"), ("bio", "$l"), ("bio", '["a", "ab"]'), ("age", "[1, 2]")]))
        return f"${variable}.{what[0]} in {what[1]}"
    if kind == 7:
        other = draw(st.sampled_from(variables))
        return f"${variable}.age {draw(st.sampled_from(['=', '<']))} ${other}.age"
    if kind == 8:
        return f"not ({_condition(draw, variables, depth + 1)})"
    if kind == 9:
        operator = draw(st.sampled_from(["and", "or"]))
        return f"({_condition(draw, variables, depth + 1)} {operator} {_condition(draw, variables, depth + 1)})"
    return _block(draw, variables, variable, depth)


def _hop(draw: st.DrawFn) -> str:
    return draw(
        st.sampled_from(
            [
                "knows",
                "likes",
                "<knows>",
                "(knows|likes)",
                "knows{1,2}",
                "knows{2,3}",
                "likes{1,3}",
                "(knows|likes){1,2}",
                "<likes>{1,2}",
            ]
        )
    )


def _block(draw: st.DrawFn, variables: list[str], variable: str, depth: int) -> str:
    inside = f"${variable} {_hop(draw)} $z{depth}"
    if draw(st.booleans()):
        inside += f"  {_condition(draw, [f'z{depth}', *variables], depth + 1)}"
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return f"not {{ {inside} }}"
    if kind == 1:
        return f"exists {{ {inside} }}"
    if kind == 2:
        return f"count {{ {inside} }} > {draw(st.integers(0, 2))}"
    return f"sum($z{depth}.age) {{ {inside} }} >= {draw(st.integers(0, 3))}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    """The text of a read."""
    number = draw(st.integers(1, 3))
    variables = list(_VARIABLES[:number])
    clauses = [f"$p: Person{draw(st.sampled_from(['', ' { name: $n }', ' { age: $i }', ' { tags: $s }']))}"]
    edges: list[str] = []
    for at, variable in enumerate(variables[1:]):
        near = draw(st.sampled_from(variables[: at + 1]))
        if draw(st.integers(0, 3)) == 0:
            edges.append(f"e{at}")
            hop = draw(st.sampled_from(["knows", "<knows>", "(knows|likes)"]))
            clauses.append(f"${near} $e{at}:{hop} ${variable}")
        elif draw(st.booleans()):
            clauses.append(f"${near} {_hop(draw)} ${variable}")
        else:
            clauses.append(f"${variable} {_hop(draw)} ${near}")
    if draw(st.integers(0, 3)) == 0:
        clauses.append(draw(st.sampled_from(["$t leadBy $p", "$p knows $_", "$t: Team  $t leadBy $p"])))
    if draw(st.integers(0, 4)) == 0:
        clauses.append(f"$p {_hop(draw)} ${draw(st.sampled_from(variables))}")
    clauses += [_condition(draw, variables) for _ in range(draw(st.integers(0, 2)))]
    return f"query q({PARAMETERS}) {{ match {{ {'  '.join(clauses)} }} {_returned(draw, variables, edges)} }}"


def _returned(draw: st.DrawFn, variables: list[str], edges: list[str]) -> str:
    if draw(st.integers(0, 3)) == 0:
        group = draw(st.sampled_from(["", "$p.mood as g", "$p.name as g", "$p as g"]))
        aggregates = ["count($p) as a", "sum($p.age) as b", "avg($p.age) as c", "min($p.bio) as d", "max($p.born) as e"]
        chosen = draw(st.lists(st.sampled_from(aggregates), unique=True, min_size=1, max_size=3))
        order = draw(st.sampled_from(["", f"order {{ {chosen[0].split()[-1]} desc }}"]))
        return f"return {{ {' '.join([group, *chosen])} }} {order}"
    columns = [f"${variable}.name" for variable in variables]
    columns += [f"${edge}.@id" for edge in edges]
    if draw(st.booleans()):
        columns.append("$p as whole")
    keys = []
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(("age", "bio", "score", "born")))
        keys.append(f"${draw(st.sampled_from(variables))}.{name}{draw(st.sampled_from(['', ' desc']))}")
    order = f"order {{ {', '.join(dict.fromkeys(keys))} }}" if keys else ""
    limit = draw(st.sampled_from(["", "limit 2"]))
    return f"return {{ {', '.join(columns)} }} {order} {limit}"


def checked_or_none(text: str, schema: Schema) -> CheckedQuery | None:
    """A query, unless it is refused."""
    reading = read_queries(text)
    if reading.findings:
        return None
    checking = check_query(reading.queries[0], schema)
    if checking.query is None or any(each.severity is Severity.ERROR for each in checking.findings):
        return None
    return checking.query
