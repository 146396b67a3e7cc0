"""Operations on API keys: create, list, revoke, rotate. Read `operations`."""
