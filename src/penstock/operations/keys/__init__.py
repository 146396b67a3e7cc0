"""Operations on credentials: API keys, the revocation of access tokens, sessions of the console.

Keys are stored through the platform port; how they are written and hashed is in `governance.keys`. No other resource is
imported. Read `operations` first.
"""
