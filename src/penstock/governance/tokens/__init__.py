"""Access tokens of identity providers: what they must look like, who signed them, and which principal they stand for.

`parsing` takes a token apart and refuses what no issuer of ours would send. `signing_keys` reads the keys of an issuer
and verifies signatures. `claims` checks what a token says, `mapping` makes a principal of it, and `rules` has the
operator's choices about an issuer. Nothing here fetches anything or reads a clock. Read `rules` first.
"""
