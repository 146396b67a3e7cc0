"""Who may act for a run: the lease of this process, and the silence of others."""
