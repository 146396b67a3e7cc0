"""The MCP surface: the catalogue and a tenant's workflows as tools, resources, prompts and tasks.

A request passes `endpoint` (host, origin, key, requests in flight), then `fast_path` or the SDK's server (`server`,
with a transport of `eras`), and becomes calls of operations through the gate. `methods` lists every method. `app`
imports `endpoint` and, when the first client comes, `entry_points`, which loads the SDK. The package imports
`operations`, `asgi` and `base`. Read `endpoint` first.

    tools, content, questions     what a tool, a result and a question are, without the SDK
    calls, tasks, resources, subscriptions
                                  what the methods do, each with a module `methods` for the SDK
    eras, wire, fast_path         how messages come and go
    answer_page                   the web page on which a person answers a question
"""
