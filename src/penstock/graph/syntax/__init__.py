"""What the schema language and the query language share: tokens, reading them, and writing them with their comments.

It does no I/O and knows neither language. Read `tokens` first, then `cursor`.
"""
