"""Work on what others wrote, with limits of time and memory: expressions, schemas, documents.

Native code can neither be interrupted nor limited from outside, and nothing else runs meanwhile. So what is not known
to be quick is done in `worker` processes, which can be killed (`pool`), from threads that tenants share fairly
(`threads`).
"""
