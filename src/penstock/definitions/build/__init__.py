"""Builds the compiled workflow that the engine walks from a document without errors.

Read `workflow` first. `nodes` compiles what all nodes have in common; the declaration of a type
(`penstock.definitions.nodes`) compiles what is specific to it. The package is pure; it reads the outline and checks
nothing.
"""
