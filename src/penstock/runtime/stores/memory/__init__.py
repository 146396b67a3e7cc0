"""The stores in memory: the reference for what stores do, and the substrate of tests. Nothing survives the process."""
