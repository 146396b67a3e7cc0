"""Evaluates what others wrote (expressions, schemas, documents) within limits of time and memory.

Native code can be neither interrupted nor limited from outside, and nothing else runs meanwhile. So everything that is
not known to be quick runs in worker processes that can be killed (`pool`, `worker`), called from threads that tenants
share fairly (`threads`). It starts processes, and touches neither stores nor the network. Read `evaluator` first.
"""
