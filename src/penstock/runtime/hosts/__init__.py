"""What a host of runs promises (`port`, read it first), and what it shares with its driver (`live`)."""
