"""Webhooks: both lists (`listing`), making one that is sent (`making`), and one with its deliveries (`endpoint`).

Read `listing` first.
"""
