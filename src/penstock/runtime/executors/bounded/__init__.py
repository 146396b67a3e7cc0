"""What other programs send, bounded before anybody decodes it: bodies, compressed bodies, events and lines."""
