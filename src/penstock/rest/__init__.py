"""The REST projection of the catalogue.

Read `application` first: a request goes through `middleware`, `routing` and `endpoints` to the gate.
"""
