"""Pure operations on graphs, branches, commits, snapshots and stored queries."""
