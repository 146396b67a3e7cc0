"""What the pages about approvals, policies, the audit log and graphs show in tests: hostile texts wherever they fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.live.console.visiting import HOSTILE
from tests.live.rest.servers import LiveServer

__all__ = ["LINK", "LONG", "MARKDOWN", "World", "furnished"]

LINK = "javascript:document.title='owned'"
MARKDOWN = f"[click]({LINK}) <b>bold</b> ![x](//evil.example/x.png)"
LONG = "long" * 250_000
_TEXTS = (HOSTILE, LINK, MARKDOWN)
_SCHEMA = """
interface Named { name: String }
node Person @description("Somebody <b>whom</b> we know.") implements Named {
  handle: String @key
  age: I64?
  tags: [String]?
  mood: enum(calm, cross)?
  likes: Vector(3)?
}
node Team implements Named { slug: String @key }
edge Knows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team
"""
_QUERIES = {
    "people_of_age": """query people_of_age($age: I64, $tag: String?, $mood: String?)
  @description("People of an age. <script>document.title='owned'</script>")
{ match { $p: Person  $p.age = $age } return { $p.handle, $p.name, $p.age, $p.tags, $p.mood } }""",
    "people": "query people() { match { $p: Person } return { $p.handle, $p.name, $p.age } }",
    "named_like": """query named_like($names: [String], $likes: Vector(3)?, $old: Bool, $born: Date?, $part: F64)
{ match { $p: Person  $names contains $p.name  } return { $p.handle } }""",
    "rename": """query rename($handle: String, $name: String)
  @description("Gives a person another name.")
{ update Person set { name: $name } where handle = $handle }""",
}
_POLICY = """@id("erase") @description("%s") @mode("shadow")
forbid (principal, action == Action::"workflow:erase_customer", resource);
@id("watch") @mode("shadow") forbid (principal, action == Action::"workflow.execute", resource);
@id("ask") @outcome("approval") @approvers("approvers") @quorum("2")
forbid (principal, action == Action::"workflow:breaks", resource) when { principal.kind == "agent" };
"""


@dataclass(frozen=True, slots=True)
class World:
    """What was made."""

    agent: str
    """The key of an agent that wants things done."""
    clerk: str
    """The key of somebody who may use graphs and nothing else."""
    conflict: str
    """A branch that cannot be merged."""
    review: str
    """A branch that can."""


def _key(server: LiveServer, name: str, kind: str, *scopes: str, **more: Any) -> str:
    made = server.call("POST", "keys", {"name": name, "kind": kind, "scopes": [*scopes], **more})
    secret: str = made["secret"]
    return secret


def _load(server: LiveServer, branch: str, *records: dict[str, Any], message: str = HOSTILE) -> None:
    data = "\n".join(json.dumps(record) for record in records)
    server.call("POST", "graphs/crm/load", {"data": data, "branch": branch, "message": message})


def person(handle: str, **data: Any) -> dict[str, Any]:
    """A record of a person."""
    return {"type": "Person", "data": {"handle": handle, "name": handle, **data}}


def furnished(server: LiveServer) -> World:
    """Make a graph with branches, policies and keys."""
    words = {"title": f"People {HOSTILE}", "description": f"{MARKDOWN} {HOSTILE}"}
    server.call("POST", "graphs", {"id": "crm", "schema": _SCHEMA, **words})
    for name, source in _QUERIES.items():
        server.call("PUT", f"graphs/crm/queries/{name}", {"source": source})
    people = [person(f"p{number:03}", age=number % 7) for number in range(130)]
    hostile = [person(text, name=text, tags=[*_TEXTS], age=9_007_199_254_740_993) for text in _TEXTS]
    _load(server, "main", *people, *hostile, person("long", name=LONG, age=41))
    for branch in ("review/ada", "clash"):
        server.call("POST", "graphs/crm/branches", {"name": branch})
    _load(server, "review/ada", person("new", name=HOSTILE), person("p001", name=MARKDOWN, age=1))
    _load(server, "clash", person("p002", name="theirs"))
    _load(server, "main", person("p002", name="ours"), message="a hurry")
    server.call("PATCH", "graphs/crm", {"protected_branches": ["main"]})
    server.call("PUT", "policies/house", {"text": _POLICY % MARKDOWN.replace('"', "'")})
    return World(
        agent=_key(server, HOSTILE, "agent", "*"),
        clerk=_key(server, "clerk", "person", "graph:*", "draft:read"),
        conflict="clash",
        review="review/ada",
    )
