"""A workflow document: its size, its parts, and what checking it may cost."""

__all__ = [
    "ACCEPTED_VERSIONS_KEPT",
    "BODY_DEPTH_MAX",
    "BRANCH_STEPS_MAX",
    "DOCUMENT_BYTES_MAX",
    "DOCUMENT_CHECK_MS_MAX",
    "DOCUMENT_DEPTH_MAX",
    "DOCUMENT_EXPRESSIONS_MAX",
    "DOCUMENT_IN_PROCESS_BYTES_MAX",
    "DOCUMENT_VALUES_MAX",
    "DOCUMENT_WORKERS_MAX",
    "DOCUMENT_WORKERS_PER_TENANT",
    "DURATION_MS_MAX",
    "FINDINGS_MAX",
    "GUESS_CHARACTERS_MAX",
    "GUESS_COMPARISONS_MAX",
    "LOOP_ITERATIONS_MAX",
    "SIGNATURES_KEPT",
    "WORKFLOW_DRAWN_NODES_MAX",
    "WORKFLOW_LISTED_NODES_MAX",
    "WORKFLOW_NAME_CHARACTERS_MAX",
    "WORKFLOW_TEST_CASES_MAX",
]

# A workflow document is written by people; the largest real ones are a few hundred kilobytes.
DOCUMENT_BYTES_MAX = 1_048_576
# Nesting deeper than this is no longer readable, and deeper values exhaust recursive JSON encoders.
DOCUMENT_DEPTH_MAX = 64
# Values in a document after YAML aliases are expanded; stops documents that grow exponentially ("billion laughs").
DOCUMENT_VALUES_MAX = 100_000
# A document up to this size, without references and with short expressions, is checked in a thread of the server; any
# other in a process that can be stopped.
DOCUMENT_IN_PROCESS_BYTES_MAX = 4_096
# Processor time that checking a document may take; the largest real ones take some seconds on a slow machine.
DOCUMENT_CHECK_MS_MAX = 20_000
# Processes that check documents, and how many of them one tenant has at a time.
DOCUMENT_WORKERS_MAX = 3
DOCUMENT_WORKERS_PER_TENANT = 1
# Ten years: longer waits are mistakes, and the sum with any instant stays well inside 64 bits.
DURATION_MS_MAX = 10 * 366 * 24 * 60 * 60 * 1000
# A loop that needs more rounds is a job for a step or for several runs; each round costs several history rows.
LOOP_ITERATIONS_MAX = 10_000
# Findings reported for one document; looking for suggestions costs time, and nobody reads on.
FINDINGS_MAX = 1_000
# Bodies inside bodies; what needs more levels is a workflow of its own, and each level costs up to five levels of JSON.
BODY_DEPTH_MAX = 8
# Longer names are not misspelt names, and comparing them costs the product of both lengths.
GUESS_CHARACTERS_MAX = 64
# Name comparisons for the "did you mean" hints of one document: about a second of work in the worst case.
GUESS_COMPARISONS_MAX = 50_000
# Nodes visited while following the branches of one document; real documents need a few thousand.
BRANCH_STEPS_MAX = 1_000_000
# Expressions of one document; each takes milliseconds to compile, so this bounds what checking a document costs.
DOCUMENT_EXPRESSIONS_MAX = 1_000
# The name of a workflow that is stored; native ones have half of it at most, and longer ones are hard to tell apart.
WORKFLOW_NAME_CHARACTERS_MAX = 128
# Signatures whose verdict is remembered, so that each is verified once; a server has fewer workflows.
SIGNATURES_KEPT = 10_000
# Versions that are remembered as accepted, so that the start of a run reads nothing for it; a server has fewer.
ACCEPTED_VERSIONS_KEPT = 10_000
# Nodes of a picture for a page: laying out so many takes up to a second, and nobody reads a larger one.
WORKFLOW_DRAWN_NODES_MAX = 200
# Nodes that are listed in words at once.
WORKFLOW_LISTED_NODES_MAX = 1_000
# Test cases that one call runs: each is a dry run, and a thousand of them take longer than a call may.
WORKFLOW_TEST_CASES_MAX = 200
