"""Adapters that keep histories and indexes. Only the composition root names them."""
