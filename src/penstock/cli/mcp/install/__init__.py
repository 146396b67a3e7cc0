"""`penstock mcp install`: entries of Penstock in the files of assistants. Read `command` first."""
