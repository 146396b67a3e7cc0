"""Codes of registered and stored resources: schemas, models, tools, agents, sessions, memory, webhooks, other servers.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, Reason, Rejected, Unavailable

__all__ = ["AGENTS", "MEMORY", "PROFILE", "REGISTRIES", "UPSTREAMS", "WEBHOOKS"]

REGISTRIES: Mapping[str, Reason] = {
    "SCHEMA_EXISTS": Reason(
        Conflict, "A schema with this id exists.", "Change it with `schema.update`, or choose another id."
    ),
    "SCHEMA_NOT_FOUND": Reason(NotFound, "The schema does not exist.", "List the schemas with `schema.list`."),
    "SCHEMA_VERSION_NOT_FOUND": Reason(
        NotFound, "The schema has no such version.", "List the versions with `schema.get`."
    ),
    "SCHEMA_VERSIONS_FULL": Reason(
        LimitExceeded,
        "The schema has the maximum number of versions, and all are in use.",
        "Register the new schema under another id.",
    ),
    "SCHEMA_INVALID": Reason(
        Rejected,
        "The value is not a usable JSON Schema.",
        "Send a JSON Schema of draft 2020-12; the message names the mistake.",
    ),
    "MODEL_EXISTS": Reason(
        Conflict, "A model with this id exists.", "Change it with `model.update`, or choose another id."
    ),
    "MODEL_IN_SETTINGS": Reason(
        Conflict,
        "The server's settings have a model with this name, and that one takes precedence.",
        "Choose another id, or change `models` in the settings.",
    ),
    "MODEL_INVALID": Reason(
        Rejected,
        "The fields of the model do not fit together; the message says which.",
        "Correct the fields that the message names.",
    ),
    "MODEL_PROVIDER_UNKNOWN": Reason(
        Rejected,
        "Models of this provider are not supported.",
        "Choose a provider that the message lists.",
    ),
    "MODEL_NOT_FOUND": Reason(NotFound, "The model does not exist.", "List the models with `model.list`."),
    "TOOL_EXISTS": Reason(
        Conflict, "A tool with this id exists.", "Change it with `tool.update`, or choose another id."
    ),
    "TOOL_NOT_FOUND": Reason(NotFound, "The tool does not exist.", "List the tools with `tool.list`."),
    "TOOL_INVALID": Reason(
        Rejected,
        "The tool cannot be called as it is registered; the message says why.",
        "Correct the entry with `tool.update`.",
    ),
    "TOOLS_LIMITED": Reason(
        LimitExceeded,
        "The tenant has as many registered tools as it may have.",
        "Delete a tool with `tool.delete`.",
    ),
}

AGENTS: Mapping[str, Reason] = {
    "AGENT_EXISTS": Reason(
        Conflict, "An agent with this id exists.", "Change it with `agent.update`, or choose another id."
    ),
    "AGENT_CHANGED": Reason(
        Conflict,
        "The agent was changed, so its etag differs from that of the call.",
        "Read the agent with `agent.get`, and send its etag.",
    ),
    "AGENT_NOT_FOUND": Reason(NotFound, "The agent does not exist.", "List the agents with `agent.list`."),
    "AGENT_NAME_TAKEN": Reason(
        Conflict,
        "Another agent, a workflow or an agent of the settings has this name.",
        "Choose another id, or delete the other agent with `agent.delete`.",
    ),
    "AGENT_INVALID": Reason(
        Rejected,
        "The agent is not valid; `findings` lists the mistakes.",
        "Correct the mistakes that `findings` lists.",
    ),
    "AGENT_TAKES_NO_MESSAGES": Reason(
        Rejected,
        "The agent has its own input or prompt, so it takes no messages.",
        "Give it work with `workflow.execute`.",
    ),
    "SESSION_NOT_FOUND": Reason(
        NotFound,
        "The session does not exist, or belongs to another caller.",
        "List your sessions with `session.list`, or start one with `agent.message`.",
    ),
    "SESSION_BUSY": Reason(
        Conflict,
        "The session has a message without an answer yet; the run in `execution_id` produces it.",
        "Wait for the answer with `execution.wait`, then send the next message.",
    ),
    "SESSION_ENDED": Reason(Conflict, "The session has ended.", "Leave `session_id` out to start a new session."),
    "SESSION_OF_ANOTHER_AGENT": Reason(
        Conflict,
        "The session belongs to another agent.",
        "Send the message to that agent, or leave `session_id` out.",
    ),
}

MEMORY: Mapping[str, Reason] = {
    "MEMORY_FULL": Reason(
        LimitExceeded,
        "The memory of the session, principal or tenant is full.",
        "Delete entries with `memory.delete`; `memory.*` in the settings sets the limits.",
    ),
    "MEMORY_VALUE_TOO_LARGE": Reason(
        LimitExceeded,
        "The value is too large for one entry.",
        "Store less, or split it into several entries; `memory.value_bytes` sets the limit.",
    ),
    "MEMORY_NOT_FOUND": Reason(NotFound, "The memory has no entry with this key.", "List the keys with `memory.list`."),
    "SESSION_REQUIRED": Reason(
        Rejected, "The scope is `session`, and the call names no session.", "Send `session_id`."
    ),
    "SESSION_UNEXPECTED": Reason(
        Rejected, "The call names a session, but its scope has no sessions.", "Leave `session_id` out."
    ),
}

UPSTREAMS: Mapping[str, Reason] = {
    "UPSTREAM_NOT_FOUND": Reason(
        NotFound,
        "The settings have no such MCP server, or import none of its tools.",
        "List the servers with `upstream.list`, or add the server to `mcp_servers`.",
    ),
    "UPSTREAM_TOOL_NOT_FOUND": Reason(
        NotFound, "The MCP server has no such tool.", "List its tools with `upstream.tools`."
    ),
    "UPSTREAM_TOOL_EXCLUDED": Reason(
        Conflict,
        "The settings do not import this tool.",
        "Add the tool to `import.tools` of the server in `mcp_servers`.",
    ),
    "UPSTREAM_TOOL_NOT_WAITING": Reason(
        Conflict,
        "The tool is neither new nor changed, so there is nothing to decide.",
        "Look at the tool with `upstream.tools`; `upstream.revoke` withdraws an accepted one.",
    ),
    "UPSTREAM_TOOL_QUARANTINED": Reason(
        Conflict,
        "The server now describes the tool differently than when it was accepted.",
        "Look at the difference with `upstream.tools`, and accept it with `upstream.accept`.",
    ),
    "UPSTREAM_UNAVAILABLE": Reason(
        Unavailable,
        "The MCP server or API does not respond.",
        "Check its entry in `mcp_servers` or `apis`, and its log; `penstock server doctor` tries the connection.",
    ),
    "UPSTREAM_SIGN_IN_REQUIRED": Reason(
        Conflict,
        "The MCP server needs a person to sign in first.",
        "Run `penstock tool upstream sign-in SERVER`.",
    ),
    "UPSTREAM_SIGN_IN_NOT_NEEDED": Reason(
        Conflict,
        "The server is used with Penstock's own credentials, so nobody signs in.",
        "Call its tools with `upstream.call`.",
    ),
    "UPSTREAM_SIGN_IN_REFUSED": Reason(
        Conflict,
        "The authorization server, or the person, refused the sign-in.",
        "Run `penstock tool upstream sign-in SERVER` again.",
    ),
    "SIGN_IN_NOT_FOUND": Reason(
        NotFound,
        "The answer belongs to no sign-in in progress, or came too late.",
        "Run `penstock tool upstream sign-in SERVER` again.",
    ),
    "UPSTREAM_AUTHORIZATION_FAILED": Reason(
        Conflict,
        "The authorization server refuses to issue a token, and a sign-in would not help.",
        "Check `auth` of the server in `mcp_servers`.",
    ),
    "UPSTREAM_AUTHORIZATION_UNAVAILABLE": Reason(
        Unavailable, "The authorization server does not respond.", "Try again in a minute."
    ),
    "MCP_SERVER_BUSY": Reason(
        Unavailable,
        "All connections to the MCP server are in use.",
        "Try again later, or run fewer steps at once against this server.",
    ),
    "MCP_SERVER_NOT_CONFIGURED": Reason(
        Rejected, "The settings have no API with this name.", "Add it to `apis`, or correct the name."
    ),
}

WEBHOOKS: Mapping[str, Reason] = {
    "WEBHOOK_NOT_FOUND": Reason(
        NotFound,
        "The webhook does not exist.",
        "List outgoing webhooks with `webhook.list`, and incoming ones with `trigger.list`.",
    ),
    "WEBHOOK_URL_INVALID": Reason(
        Rejected,
        "Events cannot or may not be sent to this address.",
        "Use a public `https` address, or set `webhooks.allow_private_addresses`.",
    ),
    "WEBHOOK_OF_EXECUTION": Reason(
        Conflict,
        "The webhook belongs to one run, so it cannot be changed like other webhooks.",
        "Delete it with `notification.delete`, or replace it with `notification.set`.",
    ),
    "NOTIFICATION_NOT_FOUND": Reason(
        NotFound,
        "The run has no notification with this id.",
        "List the notifications of the run with `notification.list`.",
    ),
    "NOTIFICATIONS_LIMITED": Reason(
        LimitExceeded,
        "The tenant, or the run, has as many notifications as it may have.",
        "Delete one with `notification.delete`.",
    ),
    "WEBHOOK_DISABLED": Reason(Conflict, "The webhook is disabled.", "Enable it with `webhook.update` first."),
    "WEBHOOKS_LIMITED": Reason(
        LimitExceeded, "The tenant has as many webhooks as it may have.", "Delete one with `webhook.delete`."
    ),
    "WEBHOOK_PATH_TAKEN": Reason(
        Conflict,
        "Several workflows use this address, so it starts none of them.",
        "Give each trigger its own `path`; `trigger.list` shows them.",
    ),
    "WEBHOOK_SIGNATURE_MISSING": Reason(
        Denied,
        "The request is not signed, or the trigger has no secret to verify it with.",
        "Sign the request with the webhook's secret, which `triggers` of the workflow names.",
    ),
    "WEBHOOK_SIGNATURE_INVALID": Reason(
        Denied,
        "The signature does not match the body and the secret.",
        "Sign the exact bytes of the body with the webhook's current secret.",
    ),
    "WEBHOOK_SIGNATURE_EXPIRED": Reason(
        Denied,
        "The timestamp of the signature is too old, or in the future.",
        "Sign the request again with the current time, and check the sender's clock.",
    ),
    "WEBHOOK_SECRET_MISSING": Reason(
        Unavailable, "The secret of the webhook is not configured.", "Set the secret that the message names."
    ),
    "WEBHOOK_BODY_INVALID": Reason(
        Rejected,
        "The body does not match the webhook's schema; `errors` lists every violation.",
        "Send a body that matches the schema of the trigger.",
    ),
    "WEBHOOK_EXPRESSION_FAILED": Reason(
        Rejected,
        "An expression of the webhook fails on this request.",
        "Send the fields that the workflow reads, or correct the trigger's expression.",
    ),
    "WEBHOOK_MAKER_UNKNOWN": Reason(
        Denied,
        "The key that stored the workflow of the webhook no longer exists.",
        "Store the workflow again with `workflow.update`.",
    ),
    "RUN_STARTER_UNKNOWN": Reason(
        Denied,
        "The key that started the run no longer exists, so the run may not call anything.",
        "Start the run again with a key that exists.",
    ),
    "SCHEDULE_MAKER_UNKNOWN": Reason(
        Denied,
        "The key that made the schedule no longer exists.",
        "Make the schedule again with `schedule.create`, or store its workflow again.",
    ),
    "WEBHOOK_RUN_INVALID": Reason(
        Rejected,
        "The value that the webhook reads from the request is not the id of a run.",
        "Send a run id: at most 128 letters, digits, `_`, `.` and `-`.",
    ),
    "DELIVERY_NOT_FOUND": Reason(
        NotFound,
        "The delivery does not exist, or was removed after its retention time.",
        "List the deliveries with `delivery.list`.",
    ),
}

PROFILE: Mapping[str, Reason] = {
    "APP_NOT_FOUND": Reason(NotFound, "The app does not exist.", "List the apps, and use an id from the list."),
    "APP_ACTIVE": Reason(Conflict, "The app is active, so it cannot be deleted.", "Revoke the app first."),
    "APP_REVOKED": Reason(Conflict, "The app was revoked, so it gets no new key.", "Restore the app first."),
    "APP_HAS_DRAFTS": Reason(
        Conflict, "A draft of the app waits for a decision.", "Approve or reject the draft first."
    ),
    "TRANSACTION_NOT_FOUND": Reason(
        NotFound, "The demo ledger has no such transaction.", "List the transactions of the ledger."
    ),
}
