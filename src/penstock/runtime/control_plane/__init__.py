"""The seven published control-plane functions over any host. Read `functions` first."""
