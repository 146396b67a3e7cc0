"""What several resources need of runs: start one, wait for its result, follow it, show it, offer it as a tool.

It stands below the resources and above the gate. Read `starting` first, then `results` and `views`.
"""
