"""APIs that an OpenAPI document describes, and that are offered as tools."""

__all__ = [
    "OPENAPI_BYTES_MAX",
    "OPENAPI_DESCRIPTION_CHARACTERS_MAX",
    "OPENAPI_OPERATIONS_MAX",
    "OPENAPI_PROPERTY_CHARACTERS_MAX",
    "OPENAPI_SCHEMA_BYTES_MAX",
    "OPENAPI_TOOL_NAME_CHARACTERS_MAX",
    "OPENAPI_VALUES_MAX",
]

# The document itself: the largest public ones (code hosts, payment providers, clouds) have thirteen megabytes.
OPENAPI_BYTES_MAX = 33_554_432
# Values in it, each an object in memory. The largest public ones have about a million.
OPENAPI_VALUES_MAX = 4_000_000
# Operations of one document: the largest public ones have about a thousand.
OPENAPI_OPERATIONS_MAX = 5_000
# What a model is told about an operation, and about one argument. Documents hold whole manuals, which every model that
# has the tool would read with every request.
OPENAPI_DESCRIPTION_CHARACTERS_MAX = 1_000
OPENAPI_PROPERTY_CHARACTERS_MAX = 240
# The schema of the arguments of one operation. What is larger is made smaller: texts and then levels are left out.
OPENAPI_SCHEMA_BYTES_MAX = 16_384
# The longest name of a tool that every client takes is 64 characters; the prefix of the API comes before this one.
OPENAPI_TOOL_NAME_CHARACTERS_MAX = 56
