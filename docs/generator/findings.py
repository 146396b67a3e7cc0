"""The page about findings: what each code of the checks means, and what to do about it.

The codes live where they are found; `tests/docs` compares this list with the source.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from docs.generator.markdown import code, page, table

__all__ = ["FINDINGS", "findings_page"]


class Note(NamedTuple):
    """What a code means, and what to do about it."""

    meaning: str
    remedy: str


_TEXT: Mapping[str, Note] = {
    "SYNTAX_ERROR": Note(
        "The text is neither YAML nor JSON at this place.",
        "The message says what was expected. In YAML, text with `: ` or `#` in it needs quotes.",
    ),
    "MULTIPLE_DOCUMENTS": Note("The file has more than one YAML document.", "One workflow per file; remove the `---`."),
    "DUPLICATE_KEY": Note("A key stands twice in one object.", "Remove or rename one of the two."),
    "KEY_NOT_TEXT": Note("A YAML key is not text (`1:`, `true:`, a list).", "Put the key in quotes."),
    "MERGE_KEY": Note(
        "YAML merge keys (`<<`) are not read.", "Write the fields out, or use an alias for the whole value."
    ),
    "TAG_NOT_ALLOWED": Note("A YAML tag (`!something`) would need code to be read.", "Remove it; quotes make a text."),
    "ALIAS_UNKNOWN": Note(
        "A YAML alias names an anchor that does not exist.", "Write the value out, or add the anchor."
    ),
    "NUMBER_NOT_FINITE": Note("A number is infinite or not a number.", "Write a finite number, or quotes for a text."),
    "TEXT_NOT_UNICODE": Note(
        "A character is half of a pair that Unicode text cannot contain.", "Save the file as UTF-8."
    ),
    "DOCUMENT_TOO_LARGE": Note("The document has too many bytes or values.", "Split it with `subworkflow` nodes."),
    "DOCUMENT_TOO_DEEP": Note(
        "Lists and objects nest too deep.", "Flatten them, or move a part into another workflow."
    ),
    "UNREADABLE_FILE": Note("The file cannot be opened, is too large, or is not text.", "See the message."),
    "INVALID_DOCUMENT": Note(
        "The compiler refused what the checks let pass. This is a gap in the checks.",
        "Correct what the message names, and please report it.",
    ),
}

_SHAPE: Mapping[str, Note] = {
    "NOT_A_WORKFLOW": Note(
        "The document is no object, or has neither `penstock: v1` nor the published header.",
        "Begin with `penstock: v1`, `name` and `nodes`.",
    ),
    "MISSING_FIELD": Note("A required field is missing, or one of several has to be there.", "Add it."),
    "UNKNOWN_FIELD": Note("The object has no field of this name.", "The hint names the nearest one, or what to write."),
    "INVALID_VALUE": Note("The value has the wrong type, form or range.", "The message says what is allowed."),
    "INVALID_DURATION": Note(
        "This is no length of time.", "Write `500ms`, `30s`, `5m`, `24h`, `1d`, `1h30m` or `PT5M`."
    ),
    "SCHEMA_NOT_RESOLVED": Note(
        "A schema refers to a registered one (`schema:NAME@VERSION`), and there is no registry here; or the document "
        "is signed, and filling it in would break the signature.",
        "Check or store the document on the server, or put the schema into the folder `schemas`.",
    ),
    "SCHEMA_UNKNOWN": Note(
        "A schema refers to one that is not registered, has no such version, or cannot be part of another one.",
        "Correct the name or the version; the message says which.",
    ),
    "INVALID_SCHEMA": Note(
        "A JSON Schema in the document is itself wrong.", "The message has the schema compiler's word."
    ),
    "SECRET_ANSWER_NOT_ALLOWED": Note(
        "A secret answer (`writeOnly`, or `format: password`) is read where it would be recorded or computed with.",
        "Give it to an activity as it is: a field that is just its path; jq sees `***`.",
    ),
    "SECRET_INPUT_NOT_ALLOWED": Note(
        "Secret input (`writeOnly`, or `format: password`) is read where it would be recorded or computed with.",
        "Give it to an activity as it is: a field that is just its path; jq sees `***`.",
    ),
    "SCHEMA_TOO_COSTLY": Note(
        "Checking a value against a JSON Schema would take too many steps.",
        "References are expanded once per use; use fewer alternatives over shared references, or split the schema.",
    ),
    "UNKNOWN_NODE_TYPE": Note("No node has this type.", "The hint names what to write; see [Node types](nodes.md)."),
    "UNKNOWN_REDUCER": Note("No reducer has this name.", "Use `overwrite`, `append` or `merge`."),
    "UNKNOWN_CHECKPOINT_STRATEGY": Note(
        "No checkpoint strategy has this name.", "Use `after_each_node`, `every_n_nodes` or `disabled`."
    ),
    "RESERVED_ID": Note(
        "The id is a name of the jq root (`input`, `state`, `item`, …), so nobody could read the node.",
        "Choose another id.",
    ),
}

_GRAPH: Mapping[str, Note] = {
    "DUPLICATE_ID": Note("Two nodes have one id. Ids are unique in the whole document.", "Rename one."),
    "DUPLICATE_BRANCH": Note("Two branches of a node have one name.", "Rename one; results are told apart by name."),
    "UNKNOWN_TARGET": Note("A route leads to a node that does not exist.", "The hint names the nearest id."),
    "TARGET_IN_OTHER_BODY": Note(
        "A route leads into, or out of, a branch, an item or an iteration.",
        "Routes stay in their body. Leave it with `$exit` and go on after the node around it.",
    ),
    "EXIT_IN_ROOT": Note("`$exit` stands where there is no body to leave.", "Name an `end` node."),
    "UNREACHABLE_NODE": Note("No path leads to the node.", "Name it as a successor somewhere, or remove it."),
    "DEAD_END": Note(
        "Nothing follows a node of the root, and it is not an end.", "Add an `end` node, or give it a `next`."
    ),
    "NO_END": Note("No path reaches an end, so no run could complete.", "Add a node with `type: end`."),
    "END_IN_BODY": Note(
        "An `end` inside a branch, an item or an iteration would end the run from there.",
        "Leave the body with `$exit` and put the `end` after the node around it.",
    ),
    "CONTINUE_IN_BODY": Note(
        "A `continue_as_new` inside a branch, an item or an iteration would end the run from there.",
        "Leave the body with `$exit` and put the `continue_as_new` after the node around it.",
    ),
    "BRANCH_NEVER_JOINS": Note(
        "No path through the branch finishes it.", "Lead its last node to the join, or to `$exit`."
    ),
    "JOIN_IMPOSSIBLE": Note("More branches must complete than there are.", "Lower `n`."),
    "INFINITE_LOOP": Note(
        "Nodes follow each other in a circle in which nothing waits and which nothing leaves.",
        "Add a way out, or use a `loop` node.",
    ),
    "NESTING_TOO_DEEP": Note(
        "Bodies inside of bodies, too deep to be read.", "Move the inner part to a `subworkflow`."
    ),
    "HAS_NO_EFFECT": Note("A field, an edge or a mock changes nothing where it stands.", "Remove it. A warning."),
    "START_COUNT": Note("There is no start node, or more than one.", "Keep one; the native format needs none."),
    "START_NOT_FIRST": Note("The start node is not the first in listed order.", "Put it first, or leave it out."),
    "END_COUNT": Note(
        "The published format has exactly one end node.", "Lead all paths to it, or write `penstock: v1`."
    ),
    "START_EDGE": Note(
        "Not exactly one edge leaves `__start__`.", "One edge from `__start__` says where a run starts."
    ),
    "EDGE_COUNT": Note(
        "A node has two outgoing edges, or an end has one.", "Choose with `switch`, fork with `parallel`."
    ),
    "INTERRUPT_IN_PARALLEL_BRANCH": Note(
        "The published format allows no question inside a branch.", "Write `penstock: v1`: there it works."
    ),
}

_DATA: Mapping[str, Note] = {
    "JQ_INVALID": Note(
        "A jq expression does not compile.", "The message has jq's own word, the hint what usually helps."
    ),
    "JQ_FORBIDDEN": Note(
        "A jq expression uses the clock, the environment, other inputs or side effects; a replay would differ.",
        "Use `.run.started_at`, `.input` and paths of the run's data.",
    ),
    "TEMPLATE_INVALID": Note(
        "`${` is not closed, or a text mixes a secret with jq.",
        "Close it, write `$${` for the characters themselves, or give the secret a field of its own.",
    ),
    "WEBHOOK_PATH_REPEATED": Note(
        "Two webhooks of the document have the same path and method.",
        "Give each a path of its own, or make one of them and tell requests apart with `filter`.",
    ),
    "WEBHOOK_UNSIGNED": Note(
        "A webhook names no secret, or `verify: {strategy: none}`: anybody who knows the address can start runs.",
        "Name a `secret`; servers refuse unsigned requests unless operators allow them.",
    ),
    "SCOPE_INVALID": Note(
        "A scope of the document, or the group of an approval, is not written as scopes are: no key could have it.",
        "Write words joined by dots or colons, such as `shop:refund`; a group is the last part of `approve:GROUP`.",
    ),
    "RATE_INVALID": Note(
        "The rate under `governance` is none: it has no whole number of starts, or no time.",
        "Write, for example, `rate: {limit: 10, per: 1h}`.",
    ),
    "SCOPE_UNFAMILIAR": Note(
        "Nothing else needs this scope, and it is much like one that something needs.",
        "Correct it if it is misspelt; otherwise give the new scope to the keys that need it.",
    ),
    "DECLINE_REQUIRED": Note(
        "Several people have to agree, and nothing says which answer declines.",
        "Write `decline`, such as `{approved: false}`: one who declines ends the question.",
    ),
    "ESCALATION_INVALID": Note(
        "An approval says who is asked next, and that could never happen: at once, after its end, or beside everybody.",
        "Name who is asked first, and write an `after` that is shorter than the `timeout`.",
    ),
    "DECLINE_INVALID": Note(
        "The answer that `decline` gives does not fit the schema of the answer.",
        "Write one that fits, and that `next` takes for a no.",
    ),
    "RESOURCE_ADDRESS": Note(
        "`expose.resource.uri` is no address that a resource can have, or does not fit the input.",
        "Write an address with a scheme of your own; its variables are members of the input, and all that it requires.",
    ),
    "UNKNOWN_ARGUMENT": Note(
        "A message of a prompt shows an argument that the input does not have.",
        "Add it to `input`, or correct the name in `{{ }}`.",
    ),
    "TOO_MANY_EXPRESSIONS": Note("The document has more jq than is checked.", "Split it with `subworkflow` nodes."),
    "UNKNOWN_REFERENCE": Note(
        "An expression reads a name that is no node, or one inside a `for_each` it is not in.",
        "The hint names what can be read; see [Data](../guides/writing-workflows.md#data).",
    ),
    "UNKNOWN_INPUT_FIELD": Note(
        "The input's schema declares no such field.", "Correct the path, or declare the field."
    ),
    "UNKNOWN_STATE_FIELD": Note(
        "The state's schema declares no such field.", "Correct the path, or declare the field."
    ),
    "UNKNOWN_OUTPUT_FIELD": Note(
        "The node's output schema declares no such field.", "Correct the path, or the schema."
    ),
    "TYPE_IMPOSSIBLE": Note(
        "A value can never have the type that is asked for where it goes.",
        "Convert it with jq (`tostring`, `tonumber`, `[.]`), or change the schema.",
    ),
    "UNDECLARED_SECRET": Note("A secret is used and not declared.", "Add its name to `secrets` at the top."),
    "UNUSED_SECRET": Note("A secret is declared and not used. A warning.", "Remove it, or use it."),
    "SECRET_NOT_ALLOWED": Note(
        "A secret is used where its value would enter the history.",
        "Use it in the fields of an activity: `with`, `arguments`, `headers`, `body`, prompts.",
    ),
}

_CASES: Mapping[str, Note] = {
    "UNKNOWN_NODE_IN_TEST": Note(
        "A test case names a node that does not exist or is of another kind.", "See the hint."
    ),
    "TEST_INPUT_INVALID": Note("The input of a test case does not fit `input`.", "Correct the case or the schema."),
    "TEST_OUTPUT_INVALID": Note("The expected output does not fit `output`.", "Correct the case or the schema."),
    "TEST_ANSWER_INVALID": Note(
        "An answer does not fit the question's schema.", "Correct it, or expect `waiting_input`."
    ),
    "TEST_MOCK_INVALID": Note(
        "A mocked output does not fit the node's `output_schema`, so the attempt will fail. A warning.",
        "Correct it, or write `{error: {code: OUTPUT_SCHEMA_VIOLATION}}` if that is meant.",
    ),
    "TOO_MANY_FINDINGS": Note("There are more findings than anybody reads.", "Correct these first, and check again."),
}

_AGENTS: Mapping[str, Note] = {
    "NOT_WITH_AGENT": Note(
        "An agent has no `state`, `edges` or `on_error`: they are made for it.", "Leave it out, or call the agent."
    ),
    "AGENT_PROMPT_MISSING": Note(
        "The document has an `input` of its own without a `prompt`, and nothing says what the agent is asked.",
        "Write `agent.prompt`, or give the input a text `prompt`.",
    ),
    "AGENT_SUMMARY_UNUSED": Note(
        "A model is named for summaries, and nothing is summarised.", "Write `summarize: true`, or leave it out."
    ),
    "AGENT_PROVIDER_UNSUITED": Note("The model of a client cannot be given tools.", "Name a model of the server."),
    "A2A_PROMPT_UNSUITED": Note(
        "An agent that is offered over A2A is given a text, and its `input` has no `prompt`.",
        "Give the input a text `prompt`, or offer the agent as a tool.",
    ),
    "A2A_WITHOUT_AGENT": Note(
        "Only agents can be offered over A2A.", "Leave `expose.a2a` out, or write an agent that calls the workflow."
    ),
    "DUPLICATE_TOOL": Note("A tool is listed twice.", "Keep one of the entries."),
    "TEST_WITHOUT_AGENT": Note(
        "A test scripts a `model`, and the document is no agent.", "Mock its `llm_call` nodes in `mock`."
    ),
}

_SIGNATURES: Mapping[str, Note] = {
    "SIGNATURE_REQUIRED": Note("Unsigned documents are not accepted here.", "Sign the document."),
    "SIGNATURE_MALFORMED": Note("The signature block cannot be read.", "Sign the document again."),
    "SIGNATURE_ALGORITHM": Note("The signature does not name EdDSA.", "Sign with an Ed25519 key."),
    "SIGNATURE_KEY_UNKNOWN": Note(
        "No trusted key has the id that the signature names.", "Add the key to the trusted ones."
    ),
    "SIGNATURE_INVALID": Note("The signature does not fit the document.", "Somebody changed it after it was signed."),
}

_PROJECT: Mapping[str, Note] = {
    "NAME_TAKEN": Note(
        "A tool, prompt, resource or webhook has a name that a workflow in another file of the project has.",
        "Choose another name, or change that file; a name belongs to the workflow that had it first.",
    ),
    "SCHEDULE_INVALID": Note(
        "A schedule cannot be kept: its cron expression, time zone or a length of time is none.",
        "Five fields (minute, hour, day, month, weekday), and a zone such as Europe/Berlin.",
    ),
    "UNKNOWN_HANDLER": Note(
        "No step module of the project has the function.", "Correct the name, or list its file in `steps.modules`."
    ),
    "MISSING_ARGUMENT": Note("The function needs an argument that `with` does not give.", "Add it to `with`."),
    "UNKNOWN_ARGUMENT": Note("The function has no such parameter.", "Correct or remove it."),
    "ARGUMENT_MISFIT": Note("An argument is not of the kind that the function declares.", "The message says which."),
    "UNKNOWN_WORKFLOW": Note(
        "No workflow of the project has the name.", "Correct it, or put the file into `workflows.paths`."
    ),
    "UNKNOWN_MODEL": Note(
        "Neither the settings nor the registry have such a model.",
        "Correct the name, add it to `models`, register it, or write `provider` beside it.",
    ),
    "UNKNOWN_SERVER": Note("The settings have no such MCP server.", "Correct the name, or add it to `mcp_servers`."),
    "UNKNOWN_AGENT": Note(
        "Neither the settings nor the project have such an agent; a server may have it in its registry.",
        "Correct the name, add it to `agents`, or put its file into the project.",
    ),
    "SECRET_NOT_SET": Note(
        "A secret that the document declares is not there on this machine.", "Set the variable that the hint names."
    ),
}

GROUPS: Mapping[str, Mapping[str, Note]] = {
    "Reading the text": _TEXT,
    "Fields and values": _SHAPE,
    "The graph": _GRAPH,
    "Expressions, types and secrets": _DATA,
    "Test cases": _CASES,
    "Agents": _AGENTS,
    "The project around it": _PROJECT,
    "Signatures": _SIGNATURES,
}
FINDINGS: Mapping[str, Note] = {name: note for group in GROUPS.values() for name, note in group.items()}


def findings_page() -> str:
    """Every code with its meaning and remedy, by what it is about."""
    return page("Findings", "`docs/generator/findings.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "`penstock validate` reports everything at once, each finding with its place, a code, a message and mostly a "
        "hint. Errors make a document unusable; warnings do not (`--strict` treats them as errors). Codes do not "
        "change between versions; messages may."
    )
    for title, notes in GROUPS.items():
        yield f"## {title}"
        if notes is _SIGNATURES:
            yield "Reported where signatures are checked, not by `penstock validate`."
        rows = ([code(name), note.meaning, note.remedy] for name, note in notes.items())
        yield table(["Code", "What it means", "What to do"], rows)
