"""Agents as A2A agents: cards and the JSON-RPC binding of the protocol, versions 1.0 and 0.3, over the catalogue.

An agent whose document says `expose: {a2a: true}` has a card and an address. A task is an execution, a message into a
task that asks is an answer, and everything passes the gate with the key or token of the caller. It needs no library of
the protocol: bodies are plain JSON. Read `surface` first, then `methods`. It may touch `operations`, `rest` and `asgi`.
"""
