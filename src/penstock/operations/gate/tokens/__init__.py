"""Callers with an access token: who they are, which issuers are trusted, which tokens are revoked.

Read `authenticator` first: it recognises tokens. `issuer_keys` keeps the keys of an issuer up to date, and
`introspection` asks an issuer about opaque tokens. `revocations` knows which tokens and subjects are revoked.
`protected_resource` tells clients where to sign in.
"""
