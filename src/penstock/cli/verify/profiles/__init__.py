"""The profiles of the kit, one table of checks each; `listing.PROFILES` has them in the order in which they are run.

Read `core` first, which is the profile's own published test.
"""
