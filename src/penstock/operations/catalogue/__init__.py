"""What can be called: capabilities, how an operation is declared, and every code that a call may be refused with.

Read `capability` first.
"""
