"""Tools of other MCP servers: what each server offers (`tools`), and which of them a tenant has accepted (`board`)."""
