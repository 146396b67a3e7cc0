"""What can be called: capabilities, how an operation is declared, and every code that a call may be refused with.

It is data: nothing here calls anything. Read `capability` first, then `declaring`.
"""
