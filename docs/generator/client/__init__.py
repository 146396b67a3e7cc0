"""Sources of the Python client: types of answers (`views`), a method for every operation (`resources`), and the
synchronous client, generated from the asynchronous one (`sync`). Read `resources` first.
"""
