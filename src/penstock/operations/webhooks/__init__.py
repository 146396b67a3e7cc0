"""Webhooks: those that are sent (`endpoints`, read it first) and those that are received (`receiver`, `triggers`)."""
