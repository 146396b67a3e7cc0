"""Sources of the Python client: types of answers (`views`), a method for every operation (`resources`), and the waiting
client made from the awaited one (`sync`).
"""
