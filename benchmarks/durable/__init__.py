"""The durable runtime on a real file: `__main__` compares it with a bare loop (`bare`) and a peer (`dbos_peer`)."""
