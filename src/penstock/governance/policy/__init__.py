"""Policies: Cedar rules that decide whether a principal may make a call, with its real arguments.

Everything here is pure: text, schemas and requests go in, decisions come out. Reading files, reloading them, counting
what happened before and recording decisions is done by `operations`. Read `outcomes` first.
"""
