"""The web console: a projection of the catalogue for people. Empty for now.

Pages that list, show and answer executions will live here. They call operations through the gate and import what the
other surfaces import: `operations`, `asgi` and `base`.
"""
