"""What commands share at the terminal: values in, tables and messages out, exit codes, questions to a person.

It knows nothing of servers and databases. Read `exits` first; `event_loop` is the same for commands with a loop.
"""
