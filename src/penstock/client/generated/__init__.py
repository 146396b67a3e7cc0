"""Made by `scripts/docs` from the catalogue: types of answers (`views`), and a method for every operation, for both
kinds of client.
"""
