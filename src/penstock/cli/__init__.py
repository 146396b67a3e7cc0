"""The command line: commands talk to a server, or work on a database file through the same gate.

`main` is the table of commands; each is imported when it is called. `run`, `runs`, `documents`, `mcp`, `server`, `dev`,
`doctor`, `project` and `operations` are the commands. `targets` decides where a command works, and `terminal` is what
they share at the terminal. Commands may use `app` and `client`, and nothing may use them. Read `main` first.
"""
