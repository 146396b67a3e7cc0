"""Profile `abuse`: nothing that anybody sends breaks the server, or takes it from others. `table` is its table.

Read `bodies` first, then `requests`, `fuzzing` and `rates`, which comes last because it exhausts limits.
"""
