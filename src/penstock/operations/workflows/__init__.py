"""Operations on workflows, their tasks, and bundles of them. Read `operations` first.

A workflow is a stored definition; starting one is an operation on executions.
"""
