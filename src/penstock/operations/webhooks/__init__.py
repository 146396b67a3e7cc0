"""Webhooks: those that are sent (`endpoints`) and those that are received (`receiver`, `triggers`).

Sending is in `runtime.webhooks`; nothing here opens a connection. No other resource is imported: received requests
start runs by calling the gate. Read `endpoints` first.
"""
