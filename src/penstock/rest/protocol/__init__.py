"""HTTP/1.1 under the server library: bounds that it leaves open, and head and body in one write."""
