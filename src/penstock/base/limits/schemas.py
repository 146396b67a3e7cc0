"""JSON Schema: what compiling a schema and checking a value may cost."""

__all__ = [
    "SCHEMA_CACHE_ENTRIES_MAX",
    "SCHEMA_DEFAULTS_MAX",
    "SCHEMA_IN_PROCESS_BYTES_MAX",
    "SCHEMA_IN_PROCESS_EXPANDED_MAX",
    "SCHEMA_IN_PROCESS_LISTING_BYTES_MAX",
    "SCHEMA_IN_PROCESS_MATCHING_MAX",
    "SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX",
    "SCHEMA_IN_PROCESS_VISITS_MAX",
    "SCHEMA_NESTING_MAX",
    "SCHEMA_VERSIONS_BYTES_MAX",
    "SCHEMA_VERSIONS_MAX",
    "SCHEMA_VIOLATIONS_MAX",
    "SCHEMA_VIOLATION_BYTES_MAX",
    "SCHEMA_VISITS_MAX",
    "SECRET_SEARCH_LOOKS_MAX",
]

# Compiled schemas kept; one definition has a handful (state, input, answers, outputs).
SCHEMA_CACHE_ENTRIES_MAX = 2_048
# Versions of a registered schema that are kept beside the newest; older ones go, unless a workflow has one of them.
SCHEMA_VERSIONS_MAX = 100
# All of them as JSON: they are one row, which is read whenever a workflow that refers to the schema is stored.
SCHEMA_VERSIONS_BYTES_MAX = 1_048_576
# Violations reported for one value; more do not help a reader.
SCHEMA_VIOLATIONS_MAX = 200
# All texts of reported violations together; names and places in them come from the value.
SCHEMA_VIOLATION_BYTES_MAX = 65_536
# Subschemas visited by one check, references expanded. The largest real schemas for the input of a tool have some
# thousands; what has more is a mistake, or made to keep a processor busy.
SCHEMA_VISITS_MAX = 100_000
# Schemas inside each other, through references too: the validator's stack. Values are not nested deeper than 64 levels.
SCHEMA_NESTING_MAX = 256
# Filling in defaults: schemas looked at for one value. Defaults inside defaults may double with each level.
SCHEMA_DEFAULTS_MAX = 100_000
# Finding the secret members of an answer: parts of its schema looked at, a few times for every member of the answer.
# About 10 µs each, in a thread.
SECRET_SEARCH_LOOKS_MAX = 10_000
# What is checked inside the server, because it takes a few milliseconds at most: about 50 ns a visit.
SCHEMA_IN_PROCESS_VISITS_MAX = 50_000
# The value is first copied for the validator, at a few hundred nanoseconds per element.
SCHEMA_IN_PROCESS_BYTES_MAX = 65_536
# With `unevaluatedProperties` references are expanded when the schema is compiled: about 20 µs a visit.
SCHEMA_IN_PROCESS_EXPANDED_MAX = 1_000
# Patterns of a schema, counted repetitions written out: compiling takes about a microsecond per unit.
SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX = 20_000
# Units of patterns times bytes of text: the matcher's work in the worst case, at ten nanoseconds each.
SCHEMA_IN_PROCESS_MATCHING_MAX = 2_000_000
# Violations that may be found times the bytes of the value that each of them copies: about 25 ms.
SCHEMA_IN_PROCESS_LISTING_BYTES_MAX = 100_000
