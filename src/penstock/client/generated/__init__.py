"""The typed methods and answers of the client, made by `scripts/docs` from the server's catalogue."""
