"""APIs that an OpenAPI document describes: operations as tools, and the requests that calls of them become.

Everything here is data in, data out: no network, no files, no clock. `document` reads the text, `schemas` translates
schemas, `operations` makes tools, `requests` makes a request of a call. Read `operations` first.
"""
