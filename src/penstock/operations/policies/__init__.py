"""Operations on policies: those of a tenant are stored here, those of the server come from files.

`loading` takes the server's policies from their files. Read `loading` first.
"""
