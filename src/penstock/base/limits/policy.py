"""Limits of policies: their texts, their number, and what of a call they get to see."""

__all__ = [
    "POLICIES_MAX",
    "POLICY_DECISIONS_KEPT",
    "POLICY_DOCUMENTS_PER_TENANT_MAX",
    "POLICY_ENTITIES_KEPT",
    "POLICY_FILES_MAX",
    "POLICY_HISTORY_RECORDS_MAX",
    "POLICY_HISTORY_WINDOW_MS_MAX",
    "POLICY_ID_CHARACTERS_MAX",
    "POLICY_INPUT_DEPTH_MAX",
    "POLICY_INPUT_VALUES_MAX",
    "POLICY_QUORUM_MAX",
    "POLICY_REPLAYED_MAX",
    "POLICY_SLICES_KEPT",
    "POLICY_TEXT_CHARACTERS_MAX",
]

POLICY_TEXT_CHARACTERS_MAX = 200_000
"""The length of one document with policies: some 500 of them; parsing it takes a few dozen milliseconds."""
POLICIES_MAX = 1_000
"""Policies that decide about one call, server-wide and tenant's together: every one may have to be evaluated."""
POLICY_ID_CHARACTERS_MAX = 100
"""The length of a policy's id: it is in audit records and messages."""
POLICY_DOCUMENTS_PER_TENANT_MAX = 100
"""Documents with policies that a tenant may store: they are all read when one of them changes."""
POLICY_QUORUM_MAX = 20
"""People whom one policy may demand for an approval: more would never be found in time."""
POLICY_INPUT_VALUES_MAX = 5_000
"""Values of the arguments that policies get to see: converting and comparing more would hold up other calls."""
POLICY_INPUT_DEPTH_MAX = 12
"""Levels of nested objects in an input schema that policies get to see; anything deeper is left out."""
POLICY_SLICES_KEPT = 512
"""Subsets of policies that are kept parsed: one for each combination that concerns a principal and an action."""
POLICY_DECISIONS_KEPT = 4_096
"""Decisions that are kept: polling and repeated calls then cost microseconds."""
POLICY_ENTITIES_KEPT = 2_048
"""Parsed principals with an action and a resource that are kept between calls."""
POLICY_REPLAYED_MAX = 10_000
"""Records of the audit log that are decided again at once: some seconds of work."""
POLICY_FILES_MAX = 200
"""Files of policies that are read: a folder given by mistake should not be read as a whole."""
POLICY_HISTORY_RECORDS_MAX = 500
"""Audit records that one count of earlier calls looks at: a rule that allows more would have to read them all."""
POLICY_HISTORY_WINDOW_MS_MAX = 31 * 24 * 60 * 60 * 1_000
"""The longest window over which policies count earlier calls: their records are kept for as long."""
