"""The executor of `http` nodes. Read `executor` first."""
