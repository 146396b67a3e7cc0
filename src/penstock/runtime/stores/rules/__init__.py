"""Rules that every store applies in the same way, so that no two stores differ in them. They keep and read nothing.

`writes` says what a store accepts, `listings` how pages are cut and continued, `search` what text matches a run.
"""
