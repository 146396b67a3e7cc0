"""Registries of agents, models, schemas and tools: one mechanism (`registry`, read it first) and a module for each kind
of thing.
"""
