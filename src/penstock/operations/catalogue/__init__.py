"""What can be called: capabilities, how an operation is declared, and every code that a call may be refused with.

It is data: nothing here calls a handler or does I/O. It may not import the gate or a resource. Read `capability`
first.
"""
