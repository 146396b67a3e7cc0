"""The catalogue of capabilities, the one gate in front of them, and one function per operation."""
