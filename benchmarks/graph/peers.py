"""Ladybug and DuckDB on the same data: load, lookup, two hops, three hops, one commit, a scan with groups.

They have neither branches nor snapshots. This program runs in the environment of the peers (`.venv/peers`), which has
nothing of Penstock in it, and prints one JSON object.

    python peers.py ladybug NODES EDGES STARTS FOLDER
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from data import edges, people, starts  # type: ignore[import-not-found]  # beside this file, without a package


def p50_ms(work: Callable[[str], object], given: list[str]) -> float:
    """The median time of one call."""
    for each in given[:20]:
        work(each)
    times = []
    for each in given:
        began = time.perf_counter()
        work(each)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def write_files(folder: Path, nodes: int, links: int) -> None:
    """The data as CSV, which both load fastest."""
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(people(nodes))
    with (folder / "knows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(edges(nodes, links))


def ladybug(folder: Path, given: list[str]) -> dict[str, float]:
    """Ladybug, with prepared statements."""
    engine = import_module("ladybug")
    connection = engine.Connection(engine.Database(str(folder / "ladybug.db")))
    connection.execute(
        "CREATE NODE TABLE Person(id STRING, name STRING, age INT64, city STRING, score DOUBLE, PRIMARY KEY (id))"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT64)")
    began = time.perf_counter()
    connection.execute(f"COPY Person FROM '{folder / 'people.csv'}' (HEADER=false)")
    connection.execute(f"COPY Knows FROM '{folder / 'knows.csv'}' (HEADER=false)")
    loaded = time.perf_counter() - began

    def prepared(text: str) -> Callable[[str], object]:
        statement = connection.prepare(text)

        def run(start: str) -> object:
            return connection.execute(statement, {"id": start}).get_all()

        return run

    start = "MATCH (a:Person {id: $id})"
    return {
        "load_seconds": loaded,
        "lookup_p50_ms": p50_ms(prepared(f"{start} RETURN a.name"), given),
        "two_hop_p50_ms": p50_ms(
            prepared(f"{start}-[:Knows]->(b:Person)-[:Knows]->(c:Person) RETURN DISTINCT c.id, c.name"), given
        ),
        "three_hop_reach_p50_ms": p50_ms(
            prepared(f"{start}-[:Knows* SHORTEST 1..3]->(c:Person) RETURN c.id"), given[:50]
        ),
        "commit_p50_ms": p50_ms(prepared(f"{start} CREATE (a)-[:Knows {{since: 2026}}]->(a) RETURN a.id"), given[:100]),
        "group_by_ms": p50_ms(
            lambda _: connection.execute("MATCH (a:Person) RETURN a.city, count(*), avg(a.age)").get_all(),
            given[:3],
        ),
    }


def duckdb(folder: Path, given: list[str]) -> dict[str, float]:
    """DuckDB, with tables and joins."""
    engine = import_module("duckdb")
    connection = engine.connect(str(folder / "duck.db"))
    began = time.perf_counter()
    connection.execute(
        "CREATE TABLE person(id VARCHAR PRIMARY KEY, name VARCHAR, age BIGINT, city VARCHAR, score DOUBLE)"
    )
    connection.execute("CREATE TABLE knows(src VARCHAR, dst VARCHAR, since BIGINT)")
    connection.execute(f"COPY person FROM '{folder / 'people.csv'}' (HEADER false)")
    connection.execute(f"COPY knows FROM '{folder / 'knows.csv'}' (HEADER false)")
    connection.execute("CREATE INDEX knows_src ON knows(src)")
    loaded = time.perf_counter() - began
    two_hops = (
        "SELECT DISTINCT p.id, p.name FROM knows a JOIN knows b ON b.src = a.dst JOIN person p ON p.id = b.dst"
        " WHERE a.src = ?"
    )
    return {
        "load_seconds": loaded,
        "lookup_p50_ms": p50_ms(
            lambda start: connection.execute("SELECT name FROM person WHERE id = ?", [start]).fetchall(), given
        ),
        "two_hop_p50_ms": p50_ms(lambda start: connection.execute(two_hops, [start]).fetchall(), given),
        "commit_p50_ms": p50_ms(
            lambda start: connection.execute("INSERT INTO knows VALUES (?, ?, 2026)", [start, start]).fetchall(),
            given[:100],
        ),
        "group_by_ms": p50_ms(
            lambda _: connection.execute("SELECT city, count(*), avg(age) FROM person GROUP BY city").fetchall(),
            given[:3],
        ),
    }


def main() -> None:
    """Measure one peer."""
    name, nodes, links, count, folder = sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5])
    write_files(folder, nodes, links)
    measure = {"ladybug": ladybug, "duckdb": duckdb}[name]
    print(json.dumps(measure(folder, starts(nodes, count))))


if __name__ == "__main__":
    main()
