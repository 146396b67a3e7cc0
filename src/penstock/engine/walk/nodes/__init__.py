"""What each type of node does when it begins, goes on and is over: one module per type, or per family of types.

`table` names them all, and mypy checks that it names every type. A module holds a `NodeRules` (see `walk.rules`) and
the functions in it. Modules of nodes may use `bodies`, `completion`, `starting`, `questions` and `turn`; they do not
know each other. Read `flow` first, then `wait`.
"""
