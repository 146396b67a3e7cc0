"""What commands share at the terminal: values in, tables and messages out, exit codes, questions to a person.

It knows nothing of servers and databases. `exits` ends every command, with `event_loop` for those that run a loop.
Read `exits` first.
"""
