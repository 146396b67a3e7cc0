"""Executors as the settings configure them."""
