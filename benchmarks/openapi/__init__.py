"""Imports of OpenAPI documents side by side with FastMCP's: `__main__` measures, `judge` says what counts as usable."""
