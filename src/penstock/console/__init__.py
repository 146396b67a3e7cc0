"""The web console: a projection of the catalogue for people. Empty for now.

Its web pages will live here. Like the other surfaces, it will call operations through the gate and import only
`operations`, `asgi` and `base`.
"""
