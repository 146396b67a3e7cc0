"""Pages about tools and clients: what somebody sees, servers whose tools are imported, how to connect, keys.

Read `seeing` first.
"""
