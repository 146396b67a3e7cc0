"""What clients get: blocks of content, results of calls, and what an execution waits for."""
