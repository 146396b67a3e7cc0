"""Operations on API keys. Read `operations`."""
