"""Operations on the MCP servers whose tools are imported (`operations`), and what is accepted without a person.

`accepting` holds the internal calls for the latter. Connections and reviews are in `runtime.upstreams`. No other
resource is imported. Read `operations` first.
"""
