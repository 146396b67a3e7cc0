"""Everything an operator can set: declared once (`model`, read it first), read from files, variables and flags
(`loading`), shown and described.
"""
