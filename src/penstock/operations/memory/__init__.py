"""Operations on memory: what agents and people keep beyond a run, under keys, for a session, a principal or a tenant.

`spaces` says whose space a call is about, `operations` has the operations. They reach the store through its port only,
and other resources not at all. Read `operations` first.
"""
