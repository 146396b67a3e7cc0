"""MCP Apps (`io.modelcontextprotocol/ui`): pages that an assistant shows beside the result of a tool.

`pages` builds them from the files in `static`, `results` says what they show. None imports the SDK. Read `views` first.
"""
