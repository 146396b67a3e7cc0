"""A server: one process with the store, the driver, the gate and its surfaces.

It opens sockets and imports the surfaces (`rest`, `mcp_surface`, `openwop`). Read `server` first.
"""
