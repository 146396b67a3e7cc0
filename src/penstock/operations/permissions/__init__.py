"""Who may start a workflow (`starting`), and on whose behalf schedules and webhooks act (`makers`).

Everything that starts a run asks here. It reads the stores through their ports and changes nothing. Read `starting`
first.
"""
