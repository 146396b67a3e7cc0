"""Operations on workflows, their tasks, and bundles of them.

A workflow is a stored definition; starting one is an operation on runs. Documents are checked in a sandbox of
`runtime`, and definitions are stored through the store port. No other resource is imported. Read `operations` first.
"""
