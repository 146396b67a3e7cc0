"""Adapters that perform activities. Only the composition root names them."""
