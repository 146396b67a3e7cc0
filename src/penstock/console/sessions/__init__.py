"""How a browser stays signed in: a signed cookie that names a session, and what the server has stored of it.

`sessions` begins, finds and ends sessions, `changes` stores their changes through the gate, `refreshing` gets new
tokens from issuers, `cookies` and `user_agents` read what a browser sends. Nothing here decides what somebody may do.
Read `sessions` first.
"""
