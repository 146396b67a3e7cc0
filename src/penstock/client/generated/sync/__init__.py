"""A typed method for every operation that waits for its answer; one module for each resource."""
