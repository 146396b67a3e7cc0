"""`penstock mcp install`: adds Penstock to the configuration files of assistants. Read `command` first."""
