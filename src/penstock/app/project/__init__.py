"""A project as a whole: whether its workflows fit what is configured beside them, and which of them can be served."""
