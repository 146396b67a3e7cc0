"""What each node type does when it begins, continues and ends: one module per type, or per family of types.

`table` names them all, and mypy checks that it names every type. A module defines a `NodeRules` (see `walk.rules`) and
its functions. Node modules may use `bodies`, `completion`, `starting`, `questions` and `turn`; they do not import each
other. Read `flow` first.
"""
