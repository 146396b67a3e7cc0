"""Reading files of queries."""

from penstock.graph.query.read import read_queries


def test_names_of_queries_differ() -> None:
    one = "query a() { match { $x: User } return { $x } }\n"
    reading = read_queries(one + one)
    assert reading.queries == ()
    assert [(each.code, each.location) for each in reading.findings] == [("DUPLICATE_QUERY", "2:1")]


def test_an_empty_file_has_no_queries() -> None:
    assert read_queries("// nothing\n") == read_queries("")
