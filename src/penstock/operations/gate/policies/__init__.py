"""What policies know beside the call itself.

Read `history` first: it counts earlier calls. `gate.policy_stage` decides, `gate.policy_check` says what the caller
hears.
"""
