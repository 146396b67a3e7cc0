"""Telling clients what changed."""
