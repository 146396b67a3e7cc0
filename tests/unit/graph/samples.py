"""A schema and helpers for tests of the graph languages, and texts that Hypothesis draws."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from penstock.definitions.source.findings import Finding
from penstock.graph.query.read import read_queries
from penstock.graph.query.tree import Query
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.typing.check import check_query
from penstock.graph.typing.model import CheckedQuery, CheckedRead

WORK = """
interface Slugged { slug: String @key }
node User {
  handle: String @key
  age: I32?
  visits: I64
  rating: F32?
  tags: [String]
  bio: String?
  active: Bool
  photo: Blob?
  born: Date?
  seen: DateTime?
  level: enum(junior, senior)
}
node Task implements Slugged {
  title: String
  due: Date?
  state: enum(open, done, blocked)
  closed_at: DateTime?
}
node Note { text: String }
node Team { name: String @key }
node Doc { slug: String @key title: String body: String tags: [String] embedding: Vector(3)? }
edge Owns: User -> Task
edge Knows: User -> User { since: Date? weight: F64? kind: enum(friend, work) }
edge Likes: User -> User { since: Date? kind: enum(work, rival) }
edge MemberOf: User -> Team @card(0..1)
edge Leads: Team -> User
edge Blocks: Task -> Task { @unique(src, dst) }
edge In: Task -> Team
"""


@cache
def work() -> Schema:
    """Return the schema."""
    return schema(WORK)


def schema(text: str) -> Schema:
    """Read a schema that has no errors."""
    reading = read_schema(text)
    assert reading.schema is not None, reading.findings
    return reading.schema


def query(text: str) -> Query:
    """Read one query that has no syntax errors."""
    reading = read_queries(text)
    assert reading.findings == ()
    (found,) = reading.queries
    return found


def checked(text: str, *, in_schema: Schema | None = None) -> CheckedQuery:
    """Check one query that has no errors."""
    checking = check_query(query(text), in_schema or work())
    assert checking.query is not None, checking.findings
    return checking.query


def checked_read(match: str, returns: str = "$u.handle", *, head: str = "", tail: str = "") -> CheckedRead:
    """Check a read that has no errors, from its parts."""
    body = checked(f"query q({head}) {{ match {{ {match} }} return {{ {returns} }} {tail} }}").body
    assert isinstance(body, CheckedRead)
    return body


def findings(text: str, *, in_schema: Schema | None = None) -> tuple[Finding, ...]:
    """Check one query, and return what was found."""
    return check_query(query(text), in_schema or work()).findings


def codes(text: str) -> list[str]:
    """Return the codes of what is wrong with a query."""
    return [each.code for each in findings(text)]


def match_codes(match: str, *, head: str = "") -> list[str]:
    """Return the codes of what is wrong with the clauses of a read."""
    return codes(f"query q({head}) {{ match {{ $u: User {match} }} return {{ $u.handle }} }}")


# Texts for Hypothesis

_COMMENTS = st.sampled_from(["// note\n", "/* note */", "/* two\n lines */", "// x // y\n"])
_SPACE = st.sampled_from([" ", "\n", "  ", "\n\n", "\t"])


@st.composite
def spaced(draw: st.DrawFn, tokens: list[str]) -> str:
    """Draw a text of tokens with any space and comments between them."""
    text = ""
    for token in tokens:
        text += token + draw(_SPACE)
        if draw(st.integers(0, 9)) == 0:
            text += draw(_COMMENTS) + draw(_SPACE)
    return text


NAMES = st.sampled_from(["a", "slug", "due_on", "limit", "match", "query", "asc", "x1", "count", "exists"])
TYPES = st.sampled_from(["User", "Task", "A", "Long_Name9"])
VARIABLES = st.sampled_from(["$a", "$b", "$_", "$match"])
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
LITERALS = st.one_of(
    STRINGS,
    st.integers(0, 10**19).map(str),
    st.decimals(0, 10**9, places=3).map(lambda number: f"{number:f}"),
    st.sampled_from(["true", "false", 'date("2026-01-31")', 'datetime("2026-01-31T09:00:00Z")']),
)
LISTS = st.lists(LITERALS, max_size=3).map(lambda items: f"[{', '.join(items)}]")
FIELDS = st.builds(lambda variable, name: f"{variable}.{name}", VARIABLES, st.one_of(NAMES, st.just("@id")))
SIMPLE = st.one_of(LITERALS, VARIABLES, LISTS, st.just("now()"))
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "not in"])
EDGES = st.sampled_from(["knows", "(knows|likes)", "*", "<knows>", "<*>", '"in"', "<knows|likes>", "contains"])
COMPARISONS = st.one_of(
    st.builds(lambda left, operator, right: f"{left} {operator} {right}", FIELDS, OPERATORS, st.one_of(FIELDS, SIMPLE)),
    st.builds(lambda field, test: f"{field} {test}", FIELDS, st.sampled_from(["is null", "is not null", ""])),
    st.builds(lambda field, text: f"search({field}, {text})", FIELDS, STRINGS),
    st.builds(lambda field, text: f"fuzzy({field}, {text}, 2)", FIELDS, STRINGS),
)


def _conditions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"({' and '.join(each)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"({' or '.join(each)})"),
        inner.map(lambda each: f"not {each}"),
        inner.map(lambda each: f"exists {{ $a knows $_ {each} }}"),
        inner.map(lambda each: f"count {{ {each} }} > 2"),
        inner.map(lambda each: f"sum($a.age) {{ {each} }} >= 1.5"),
    )


CONDITIONS = st.recursive(COMPARISONS, _conditions, max_leaves=4)
BINDINGS = st.builds(
    lambda variable, name, values: f"{variable}: {name}" + (f" {{ {', '.join(values)} }}" if values else ""),
    VARIABLES,
    TYPES,
    st.lists(st.builds(lambda name, value: f"{name}: {value}", NAMES, SIMPLE), max_size=3),
)
TRAVERSALS = st.builds(
    lambda source, edge_variable, edges, bounds, target: f"{source} {edge_variable}{edges}{bounds} {target}",
    VARIABLES,
    st.sampled_from(["", "$e:"]),
    EDGES,
    st.sampled_from(["", "{1,3}", "{2,}"]),
    VARIABLES,
)
CLAUSES = st.one_of(
    BINDINGS,
    TRAVERSALS,
    CONDITIONS,
    st.lists(st.one_of(BINDINGS, TRAVERSALS, CONDITIONS), min_size=1, max_size=2).map(
        lambda each: f"not {{ {' '.join(each)} }}"
    ),
)
_COLUMNS = st.builds(
    lambda value, alias: f"{value}{alias},",
    st.one_of(FIELDS, VARIABLES, LITERALS, FIELDS.map(lambda each: f"avg({each})"), st.just("count($a)")),
    st.sampled_from(["", " as due_on", " as limit"]),
)
_ORDERS = st.sampled_from(
    ["", "order { due_on asc }", "order { $a.x desc, limit }", "order { rrf(nearest($a.e, $v), bm25($a.b, $t), 7) }"]
)
_MUTATIONS = st.one_of(
    st.builds(
        lambda name, values: f"insert {name} {{ {' '.join(values)} }}",
        TYPES,
        st.lists(st.builds(lambda name, value: f"{name}: {value},", NAMES, SIMPLE), min_size=1, max_size=9),
    ),
    st.builds(lambda name, value: f"update {name} set {{ a: {value} }} where slug = {value}", TYPES, SIMPLE),
    st.builds(
        lambda name, value: f"delete {name} where (slug = {value} or @id in {value}) and a is null", TYPES, SIMPLE
    ),
)
_TYPES = st.sampled_from(["String", "I64", "[Date]", "Vector(3)", "Bool?", "[String]?"])
_PARAMETERS = st.builds(
    lambda text, name, written: f"{text} ${name}: {written}",
    st.sampled_from(["", '@description("what it is")']),
    NAMES,
    _TYPES,
)
_HEADS = st.builds(
    lambda name, parameters, texts: f"query {name} ( {' , '.join(parameters)} ) {' '.join(texts)}",
    NAMES,
    st.lists(_PARAMETERS, max_size=4),
    st.lists(
        st.sampled_from(['@description("d")', '@instruction("i")', '@mcp(expose: false, tool_name: "t")']),
        unique=True,
        max_size=3,
    ),
)


@st.composite
def query_texts(draw: st.DrawFn) -> str:
    """Draw a file of queries that follow the grammar, with comments anywhere."""
    tokens: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        tokens += [draw(_HEADS), "{"]
        if draw(st.booleans()):
            tokens += ["match", "{", *draw(st.lists(CLAUSES, min_size=1, max_size=4)), "}"]
            tokens += ["return", "{", *draw(st.lists(_COLUMNS, min_size=1, max_size=3)), "}", draw(_ORDERS)]
            tokens += draw(st.sampled_from([[], ["limit", "5"]]))
        else:
            tokens += draw(st.lists(_MUTATIONS, min_size=1, max_size=3))
        tokens.append("}")
    return draw(spaced(tokens))


_ANNOTATIONS = st.sampled_from(
    ["", "@key", "@index @unique", '@description("x")', '@embed("a", model="m", n=3)', "@old(name)", "@f(1.50)"]
)
_SCHEMA_TYPES = st.sampled_from(["String", "I64?", "[Date]", "Vector(3)?", "enum(open, in-progress, 2nd)", "Blob"])
_PROPERTIES = st.builds(lambda name, written, note: f"{name}: {written} {note}", NAMES, _SCHEMA_TYPES, _ANNOTATIONS)
_CONSTRAINTS = st.sampled_from(
    [
        *("@key(a, b)", "@unique(src, dst)", "@index(a)", "@range(a, -1.5..2)", "@range(a, ..5)", "@range(a, 0..)"),
        '@check(a, "^\\\\d+$")',
    ]
)
_MEMBERS = st.lists(st.one_of(_PROPERTIES, _CONSTRAINTS), max_size=4)


@st.composite
def schema_texts(draw: st.DrawFn) -> str:
    """Draw a schema that follows the grammar, with comments anywhere; names need not exist."""
    tokens: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["interface", "node", "edge"]))
        name = draw(TYPES)
        members = ["{", *draw(_MEMBERS), "}"]
        if kind == "interface":
            tokens += [kind, name, *members]
        elif kind == "node":
            tokens += [kind, name, draw(st.sampled_from(["", '@rename_from("Old")'])), *members]
        else:
            tokens += [kind, name, ":", draw(TYPES), "->", draw(TYPES), draw(st.sampled_from(["", "@card(0..1)"]))]
            tokens += draw(st.sampled_from([[], members]))
    return draw(spaced(tokens))
