"""Operations on the MCP servers whose tools are imported (`operations`), and what is accepted without a person."""
