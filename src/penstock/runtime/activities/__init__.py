"""How activities are performed: the port that executors implement (`performing`, read it first), which executor does
which activity, and how progress is heard.
"""
