"""From records to state: fold one record into the state of a run.

`evolve` dispatches by record type, `waits` has the handlers of everything a run waits for, `scopes` maintains the scope
tree and `trust` the untrusted mark. Pure: no document, no clock, no I/O. Read `evolve` first.
"""
