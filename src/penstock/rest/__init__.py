"""The REST surface: every operation of the catalogue at its path, and the pages beside them.

Read `application` first: a request goes through `middleware`, `routing` and `endpoints` to the gate. `http_protocol` is
HTTP/1.1 below all surfaces. The surface may import `operations`, `asgi` and `base`.
"""
