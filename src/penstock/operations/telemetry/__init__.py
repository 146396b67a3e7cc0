"""What this process counts (`metrics`), and the events that it writes to its log (`log_events`).

The gate and the surfaces report here. Nothing here knows about requests; the only I/O is the standard library's
logging. Read `metrics` first.
"""
