"""Events of runs for the world outside: what is told (`events`), to whom (`endpoints`), read from what was stored
(`feed`), and sent at least once (`sending`).
"""
