"""Commands that serve, or look after a server: serve, worker, config, backup, profile. Read `serve` first."""
