"""Tokens of identity providers: sizes, times, and how often their issuers are asked."""

__all__ = [
    "ISSUER_DOCUMENT_BYTES_MAX",
    "ISSUER_FETCH_SECONDS",
    "ISSUER_KEYS_KEPT_MS",
    "ISSUER_KEYS_MAX",
    "ISSUER_REFETCH_MS",
    "LOGOUT_FORM_BYTES_MAX",
    "LOGOUT_NOTED_MS",
    "LOGOUT_TOKEN_AGE_SECONDS_MAX",
    "OPAQUE_TOKENS_PER_MINUTE",
    "STANDING_AUTHORITY_MS",
    "TOKENS_PROVEN_KEPT",
    "TOKEN_CHARACTERS_MAX",
    "TOKEN_GROUPS_MAX",
    "TOKEN_HEADER_CHARACTERS_MAX",
    "TOKEN_ID_CHARACTERS_MAX",
    "TOKEN_INTROSPECTION_KEPT_MS",
    "TOKEN_LEEWAY_SECONDS",
    "TOKEN_PRINCIPAL_CHARACTERS_MAX",
    "TOKEN_SCOPES_MAX",
    "TOKEN_SIGNATURE_CHARACTERS_MAX",
    "TOKEN_SUBJECT_CHARACTERS_MAX",
]

# An access token with a few hundred groups; web servers and proxies take no longer headers anyway.
TOKEN_CHARACTERS_MAX = 16_384
# The header of a token names an algorithm and a key; certificates in it are refused.
TOKEN_HEADER_CHARACTERS_MAX = 2_048
# RSA with 8192 bits, in base64.
TOKEN_SIGNATURE_CHARACTERS_MAX = 1_400
# OpenID Connect allows 255 ASCII characters for a subject.
TOKEN_SUBJECT_CHARACTERS_MAX = 255
# The id of a principal with a token: the longest subject, and the name of its issuer.
TOKEN_PRINCIPAL_CHARACTERS_MAX = 320
# A token id is a UUID or a digest; it is the name of a revocation.
TOKEN_ID_CHARACTERS_MAX = 255
# Identity providers leave the groups out of a token when there are more than about 200.
TOKEN_GROUPS_MAX = 500
# Scopes of one token, like those of a key.
TOKEN_SCOPES_MAX = 200
# How far the clocks of an issuer and of this machine may differ.
TOKEN_LEEWAY_SECONDS = 60
# Logout tokens are sent at once and live for minutes; an older one was kept by somebody.
LOGOUT_TOKEN_AGE_SECONDS_MAX = 300
# How long a logout token is remembered, so that it counts once: longer than it is accepted.
LOGOUT_NOTED_MS = 2 * (LOGOUT_TOKEN_AGE_SECONDS_MAX + TOKEN_LEEWAY_SECONDS) * 1000
# A logout token, and the name of its field.
LOGOUT_FORM_BYTES_MAX = TOKEN_CHARACTERS_MAX + 1_000
# Tokens whose signature was verified and that have not expired; others are verified again. About a kilobyte each.
TOKENS_PROVEN_KEPT = 1_000
# The metadata or the key set of an issuer is a few kilobytes, with certificates perhaps a hundred.
ISSUER_DOCUMENT_BYTES_MAX = 512 * 1024
# Long enough for an issuer on another continent; a caller with a new token waits for it.
ISSUER_FETCH_SECONDS = 5.0
# Keys in the set of one issuer: a few, more while they are rotated. Large services have a few dozen.
ISSUER_KEYS_MAX = 100
# A key set is read again after this time, so that a key that its issuer withdrew stops working.
ISSUER_KEYS_KEPT_MS = 10 * 60 * 1000
# An unknown key id makes us read the set again, but no more often than this: anybody can send unknown key ids.
ISSUER_REFETCH_MS = 30_000
# How long the answer of an issuer about a token is believed: it may revoke the token at any moment.
TOKEN_INTROSPECTION_KEPT_MS = 30_000
# Tokens that issuers are asked about in a minute: anybody can send texts that might be tokens.
OPAQUE_TOKENS_PER_MINUTE = 600
# How long something that was made with a token (a schedule, a webhook) acts with the authority of that moment. The
# issuer does not tell us when it takes a right away, so somebody has to confirm it from time to time.
STANDING_AUTHORITY_MS = 90 * 24 * 60 * 60 * 1000
