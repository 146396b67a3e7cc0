"""Callers with an access token: who they are, which issuers are trusted, which tokens are revoked.

`authenticator` recognises tokens, `issuer_keys` keeps the keys of an issuer up to date, `introspection` asks an issuer
about tokens that say nothing themselves, `revocations` knows which tokens and subjects are revoked, and
`protected_resource` tells clients where to sign in. Read `authenticator` first.
"""
