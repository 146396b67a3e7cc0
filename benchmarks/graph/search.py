"""How fast texts are searched and ranked, with a text index (`@search`) and without one, and vectors.

    scripts/benchmark graph --search               # 100,000 documents; about five minutes
    scripts/benchmark graph --search --quick       # a tenth of it

The same documents are loaded into two graphs of one file. Words are drawn like those of a language: few are frequent,
most are rare. Every read is made on both graphs and has to give the same rows. The time of the processor (`cpu`) says
more than the time that passed if the machine has other work; it includes what other threads of the process do.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import accumulate, count, islice
from random import Random
from statistics import median
from struct import pack, unpack
from typing import Any

from penstock.graph.query.read import read_queries
from penstock.graph.records import GraphRecord, NodeRecord
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.typing.check import check_query
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import GraphRef, LoadPublished, Mutated, ReadLimits, ReadRows, Stamp, View
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore

__all__ = ["measure_search", "measure_vectors"]

_SEED = 20_261_118
_NOW = 1_767_225_600_000
_PIECE = 5_000
_VOCABULARY = 50_000
_WORDS = 50
_PLAIN = "node Doc { slug: String @key  title: String  body: String }"
_INDEXED = "node Doc { slug: String @key  title: String  body: String @search }"
_QUERIES = """
query search($q: String) { match { $d: Doc search($d.body, $q) } return { $d.slug } }
query phrase($q: String) { match { $d: Doc match_text($d.body, $q) } return { $d.slug } }
query fuzzy($q: String) { match { $d: Doc fuzzy($d.body, $q, 1) } return { $d.slug } }
query ranked($q: String) {
    match { $d: Doc search($d.body, $q) } return { $d.slug } order { bm25($d.body, $q) } limit 10 }
query best($q: String) { match { $d: Doc } return { $d.slug } order { bm25($d.body, $q) } limit 10 }
query edit($slug: String, $text: String) { update Doc set { body: $text } where slug = $slug }
"""
# The time limit of a query would end most of those that have no index.
_LIMITS = ReadLimits(seconds=600)


def _words() -> list[str]:
    draw = Random(_SEED)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(draw.choices(letters, k=draw.randint(3, 10))) for _ in range(_VOCABULARY)]


def _texts(words: list[str], documents: int) -> Iterator[str]:
    draw = Random(_SEED + 1)
    weights = list(accumulate(1 / (place + 10) for place in range(len(words))))
    for _ in range(documents):
        yield " ".join(draw.choices(words, cum_weights=weights, k=_WORDS))


class _Documents:
    def __init__(self, store: SqliteGraphStore, name: str, source: str, queries: str) -> None:
        self.store = store
        self.ref = GraphRef("default", name)
        self.source = source
        self.schema = _schema(source)
        self.queries = {each.name: check_query(each, self.schema).query for each in read_queries(queries).queries}
        self._numbers = count(1)

    def new_id(self) -> str:
        return f"{self.ref.name}{next(self._numbers):012d}"

    def stamp(self) -> Stamp:
        return Stamp(commit_id=self.new_id(), at=_NOW, new_id=self.new_id)

    async def load(self, records: Iterator[GraphRecord]) -> float:
        await self.store.create_graph(self.ref, schema=self.schema, source=self.source, stamp=self.stamp())
        began, load_id = time.perf_counter(), self.new_id()
        about = {"branch": "main", "mode": LoadMode.APPEND, "load_id": load_id}
        await self.store.begin_load(self.ref, **about, stamp=self.stamp())  # type: ignore[arg-type]  # as it is declared
        while piece := list(islice(records, _PIECE)):
            await self.store.add_to_load(load_id, piece, stamp=self.stamp())
        published = await self.store.publish_load(load_id, stamp=self.stamp())
        assert isinstance(published, LoadPublished), published
        return time.perf_counter() - began

    async def read(self, name: str, *, branch: str = "main", **given: Any) -> tuple[Any, ...]:
        view = await self.store.resolve(self.ref, branch=branch)
        query = self.queries[name]
        assert isinstance(view, View)
        assert query is not None
        found = await self.store.read(view, query, given, at=_NOW, limits=_LIMITS)
        assert isinstance(found, ReadRows), found
        return found.rows

    async def edit(self, number: int, text: str, branch: str = "main") -> None:
        query = self.queries["edit"]
        assert query is not None
        given = {"slug": f"d{number}", "text": text}
        done = await self.store.mutate(self.ref, query, given, branch=branch, stamp=self.stamp())
        assert isinstance(done, Mutated), done


def _schema(source: str) -> Schema:
    reading = read_schema(source)
    assert reading.schema is not None, reading.findings
    return reading.schema


async def _timed(work: Callable[[], Awaitable[Any]], times: int) -> tuple[float, float, Any]:
    """The median time of a call in milliseconds, the median time of the processor in it, and what it gave."""
    took, used, found = [], [], None
    for _ in range(times):
        began, began_using = time.perf_counter(), time.process_time()
        found = await work()
        took.append((time.perf_counter() - began) * 1000)
        used.append((time.process_time() - began_using) * 1000)
    return median(took), median(used), found


async def measure_search(store: SqliteGraphStore, documents: int) -> dict[str, Any]:
    """The figures of texts. Without an index each read is made once: it takes seconds."""
    words = _words()
    texts = list(_texts(words, documents))
    figures: dict[str, Any] = {"documents": documents, "words_of_each": _WORDS}
    graphs = []
    for name, source in (("plain", _PLAIN), ("indexed", _INDEXED)):
        graph = _Documents(store, name, source, _QUERIES)
        doc = graph.schema.node_types["Doc"]
        records = (
            NodeRecord(doc, {"slug": f"d{number}", "title": text[:20], "body": text})
            for number, text in enumerate(texts)
        )
        began = time.process_time()
        figures[f"load_{name}_seconds"] = await graph.load(records)
        figures[f"load_{name}_cpu_seconds"] = time.process_time() - began
        graphs.append(graph)
        await store.create_branch(graph.ref, "work", stamp=graph.stamp())
        for number in range(50):
            await graph.edit(number * 7, f"{words[5_000]} {words[400]}", "work")
        edits = iter(range(40))
        edit = partial(_edit_next, graph, edits, texts[-1])
        figures[f"commit_{name}_ms"], figures[f"commit_{name}_cpu_ms"], _ = await _timed(edit, 40)
    asked = {
        "search_rare": ("search", words[5_000]),
        "search_frequent": ("search", words[20]),
        "search_two": ("search", f"{words[100]} {words[400]}"),
        "phrase": ("phrase", f"{words[10]} {words[12]}"),
        "fuzzy": ("fuzzy", words[5_000][:-1]),
        "ranked": ("ranked", f"{words[100]} {words[400]}"),
        "best": ("best", f"{words[700]} {words[5_000]}"),
    }
    plain, indexed = graphs
    for name, (query, text) in asked.items():
        for branch in ("main", "work"):
            ask = {"branch": branch, "q": text}
            before, before_used, expected = await _timed(partial(plain.read, query, **ask), 1)
            after, after_used, found = await _timed(partial(indexed.read, query, **ask), 7)
            assert found == expected, (name, branch)
            figures[f"{name}_{branch}_rows"] = len(found)
            figures |= {f"{name}_{branch}_ms": after, f"{name}_{branch}_cpu_ms": after_used}
            figures |= {f"{name}_{branch}_plain_ms": before, f"{name}_{branch}_plain_cpu_ms": before_used}
    return figures


async def _edit_next(graph: _Documents, numbers: Iterator[int], text: str) -> None:
    await graph.edit(next(numbers), text)


async def measure_vectors(store: SqliteGraphStore, vectors: int, dimension: int) -> dict[str, Any]:
    """The figures of `nearest`."""
    source = f"node Item {{ slug: String @key  place: Vector({dimension}) }}"
    query = f"""query near($v: Vector({dimension})) {{
        match {{ $d: Item }} return {{ $d.slug }} order {{ nearest($d.place, $v) }} limit 10 }}"""
    graph = _Documents(store, f"vectors{vectors}", source, query)
    item, draw = graph.schema.node_types["Item"], Random(_SEED + 2)

    def drawn() -> tuple[float, ...]:
        return unpack(f"<{dimension}f", pack(f"<{dimension}f", *(draw.random() for _ in range(dimension))))

    records = (NodeRecord(item, {"slug": f"i{number}", "place": drawn()}) for number in range(vectors))
    figures: dict[str, Any] = {"load_vectors_seconds": await graph.load(records)}
    wanted = drawn()
    figures["nearest_ms"], figures["nearest_cpu_ms"], _ = await _timed(lambda: graph.read("near", v=wanted), 5)
    return {f"{name}_{vectors}x{dimension}": value for name, value in figures.items()}
