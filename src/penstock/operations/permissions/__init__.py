"""Who may start a workflow (`starting`), and in whose name schedules and webhooks act (`makers`).

Everything that starts a run asks here. It reads the stores and changes nothing.
"""
