"""Steps: Python functions that workflows call.

`registry` finds them, `binding` converts arguments and results, `outcomes` turns a call's result into an activity
outcome. The package does not call steps: the step executor does. Read `registry` first.
"""
