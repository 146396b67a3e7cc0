"""Operations on the MCP servers whose tools are imported."""
