"""The test bench for workflow authors, which `penstock.testing` publishes."""
