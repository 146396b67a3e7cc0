"""The shell around the pure cores: ports, the driver, timers and leases."""
