"""Steps: Python functions that workflows call.

`registry` finds them, `binding` fills in their parameters, `outcomes` says what came of a call.
"""
