"""The published definition format as tables: everything but the nodes, which `nodes` declares beside the native ones.

Read by `editor_schema`. The published format is accepted unchanged. The one addition is the signature block, which that
format uses without listing it. Names of pieces begin with `published_`, so that both formats fit into one schema file.
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock.base.json import JsonObject
from penstock.definitions.shapes.fields import (
    COUNT,
    EDGE,
    OBJECT,
    SIGNATURE,
    STRING,
    TEXT,
    Shape,
    array_of,
    optional,
    ref,
    required,
)

__all__ = ["PUBLISHED_DOCUMENT", "PUBLISHED_EDGE_SHAPES", "PUBLISHED_FRAGMENTS", "PUBLISHED_SHAPES"]

# The published schema requires less of these than the format's prose; the checks require the rest.
PUBLISHED_FRAGMENTS: Mapping[str, JsonObject] = {
    "published_duration": {**STRING, "description": "A length of time, such as 30s or 24h.", "examples": ["30s"]},
    "published_interval": {**TEXT, "description": "A length of time, such as 500ms or 10s.", "examples": ["10s"]},
    "published_checkpoint_strategy": {**TEXT, "description": "When the run's state is stored in full."},
    "published_json_schema": {**OBJECT, "description": "A JSON Schema."},
    "published_answer_schema": {**OBJECT, "minProperties": 1, "description": "A JSON Schema of the answer."},
    "published_state_schema": {
        **OBJECT,
        "minProperties": 1,
        "description": "A JSON Schema of the run's state; each property may name its reducer.",
    },
    "published_any_schema": {"description": "A JSON Schema."},
}

_RETRY = Shape(
    name="published_retry",
    title="Retry policy",
    description="How often, and how fast, to retry a failed activity.",
    fields=(
        required("max_attempts", COUNT, "The number of attempts in all."),
        optional("initial_interval", ref("published_interval"), "The delay before the second attempt."),
        optional("backoff_coefficient", {"type": "number"}, "The factor by which the delay grows."),
        optional("max_interval", ref("published_interval"), "The longest delay between two attempts."),
        optional("non_retryable_errors", array_of(TEXT), "Error codes that are not retried."),
    ),
)

_HEADER = Shape(
    name="published_header",
    title="Document header",
    description="What the workflow is called.",
    fields=(
        required("schema", STRING, "The address of the format's version."),
        required("name", STRING, "The workflow's name."),
        required("version", STRING, "The version of this definition."),
        optional("description", TEXT, "What the workflow does."),
        optional("signature", ref("published_signature"), "A signature of the document."),
    ),
)

_CHECKPOINTING = Shape(
    name="published_checkpointing",
    title="Checkpointing",
    description="When the run's state is stored in full.",
    fields=(
        optional("strategy", ref("published_checkpoint_strategy"), "after_each_node, every_n_nodes or disabled."),
        optional("policy", ref("published_checkpoint_strategy"), "The same as `strategy`."),
        optional("n", COUNT, "The number of nodes between two checkpoints."),
        optional("interval", COUNT, "The same as `n`."),
    ),
    accepts_more=True,
)

PUBLISHED_DOCUMENT = Shape(
    name="published_document",
    title="Published workflow definition",
    description="A workflow in the published format.",
    fields=(
        required("document", ref("published_header"), "What the workflow is called."),
        required("state_schema", ref("published_state_schema"), "The JSON Schema of the state, with reducers."),
        required("nodes", ref("published_nodes"), "The nodes; `edges` give their order."),
        required("edges", array_of(ref("published_edge")), "The connections between the nodes."),
        optional("checkpointing", ref("published_checkpointing"), "When the run's state is stored in full."),
    ),
    hints={
        name: "this belongs to the native format, which begins with `penstock: v1`"
        for name in (
            "name",
            "input",
            "output",
            "state",
            "secrets",
            "on_error",
            "expose",
            "governance",
            "triggers",
            "tests",
        )
    },
)

# The objects inside nodes come between these two.
PUBLISHED_SHAPES = (_RETRY, _HEADER, _CHECKPOINTING)
PUBLISHED_EDGE_SHAPES = (replace(EDGE, name="published_edge"), replace(SIGNATURE, name="published_signature"))
