"""A typed method for every operation, awaited; one module for each resource."""
