"""The parts of a decision: the walk from node to node, and how each kind of input is handled.

`turn` is one decision while it is being made. `nodes` has one module per node type. Pure, like the whole engine.
Read `advance` first.
"""
