"""A server: one process with the store, the driver, the gate and its surfaces. Read `server` first."""
