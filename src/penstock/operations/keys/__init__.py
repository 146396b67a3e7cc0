"""Operations on API keys: create, list, revoke, rotate.

Keys are stored through the platform port; how they are written and hashed is in `governance.keys`. No other resource is
imported. Read `operations` first.
"""
