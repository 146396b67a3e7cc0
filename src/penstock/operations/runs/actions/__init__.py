"""Actions that policies may name beside operations and tools: workflows, and what nodes of runs reach.

`workflows` has a workflow as an action, whichever way it is started; `nodes` has hosts, models and agents. They decide
nothing; `policies.known_actions` gathers every action of a tenant. Read `workflows` first.
"""
