"""Webhooks: those that are sent (`endpoints`) and those that are received (`receiver`, `triggers`)."""
