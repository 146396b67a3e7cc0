"""The requests of OAuth that the MCP executor makes: finding authorization servers, and getting tokens from them.

`protocol` makes the requests, `documents` reads what servers publish about themselves, `client_proofs` says who we are,
`challenges` reads why a request was refused, `guarded_http` bounds it all. Read `protocol` first.
"""
