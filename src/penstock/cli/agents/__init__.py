"""Commands about agents that are more than one operation: `penstock agent chat`.

They work on a server or on a file, through operations and streams only. Read `chat` first.
"""
