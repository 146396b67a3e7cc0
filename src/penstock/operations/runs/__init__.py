"""What several resources need of runs: start one, wait for its result, follow it, show it, offer it as a tool.

It is below the resources and above the gate, and reaches runs through the host and store ports. Read `starting` first.
"""
