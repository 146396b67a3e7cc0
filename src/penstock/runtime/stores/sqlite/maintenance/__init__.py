"""Looking after a file: copies of it, whether it is sound, whether it can be used now."""
