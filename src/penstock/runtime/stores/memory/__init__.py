"""The store in memory: the reference for what a store does, and the substrate of tests."""
