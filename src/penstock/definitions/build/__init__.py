"""From a document without errors to the compiled workflow that the engine walks.

Read `workflow` first. `nodes` compiles what all nodes have in common; what is special to a type is in its
declaration (`penstock.definitions.nodes`).
"""
