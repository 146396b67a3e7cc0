"""Rules that every store applies in the same way, so that no two stores differ in them. They do no I/O.

`writes` decides what a store accepts, `listings` how pages are cut and continued, `search` which text matches a run.
Read `writes` first.
"""
