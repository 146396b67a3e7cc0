"""`agent_delegate`: gives tasks to agents over the protocol that each of them speaks.

`port` is plain data, and only `a2a` and `task_api` use the network. Read `executor` first.
"""
