"""The REST surface: every operation of the catalogue at its path, and the pages beside them.

A request passes `middleware`, `routing` and `endpoints` on its way to the gate; `http_protocol` serves HTTP/1.1 below
all surfaces. The package imports `operations`, `asgi` and `base`. Read `application` first.
"""
