"""The program with which an agent keeps the results of its calls, known to be quick.

It is the one program of an agent that the rules of `bounds` cannot bound: it goes through the calls by their numbers.
There are at most as many as a turn may make, each looks at one result, and a result is written as JSON at most twice.
So its work is linear in what it reads, and it may run inside the server like any other bounded program. If it did not,
every turn of every agent would wait for a worker process.

Above it: `expressions`, and `definitions.agents`, which writes the program into a node. Its text is in the histories of
runs: it never changes.
"""

from __future__ import annotations

import json

from penstock.base import limits

__all__ = ["ASK_USER", "KEEP_RESULTS", "QUICK_PROGRAMS"]

ASK_USER = "ask_user"
"""The tool with which an agent asks a person, if its block allows that."""
KEEP_RESULTS = (
    "[.turn.tool_calls as $asked | .calls as $found | range(0; $asked | length) as $i | $found[$i] as $result"
    ' | {role: "tool", id: $asked[$i].id, name: $asked[$i].name}'
    ' + (if ($result | type) == "object" and ($result | keys) == ["error"]'
    ' and ($result.error | type) == "object" and ($result.error | has("code") and has("message"))'
    ' then {error: "\\($result.error.code): \\($result.error.message)"}'
    f" elif $asked[$i].name == {json.dumps(ASK_USER)}"
    ' and ($result | type) == "object" and ($result | has("answer"))'
    " then {content: $result.answer, person: true}"
    f" elif ($result | tojson | length) > {limits.AGENT_RESULT_CHARACTERS_MAX}"
    f" then {{content: (($result | tojson | .[0:{limits.AGENT_RESULT_CHARACTERS_MAX}])"
    f' + " … (cut off: only the first {limits.AGENT_RESULT_CHARACTERS_MAX} characters are shown)")}}'
    " else {content: $result} end)]"
)
"""What a turn's calls returned, as entries of the conversation."""
QUICK_PROGRAMS = frozenset({KEEP_RESULTS})
"""Programs whose work is linear in what they read, although the rules cannot tell."""
