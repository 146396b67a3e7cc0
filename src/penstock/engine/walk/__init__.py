"""What a decision is made of: the walk from node to node, and what each kind of input does to it.

Read `advance` first; `turn` is one decision in the making.
"""
