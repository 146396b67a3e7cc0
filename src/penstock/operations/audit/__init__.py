"""Operations on the audit log: read it, verify it, sign it, prove records, hold and erase them.

`records` lists and exports, `verification` verifies, `checkpoints` signs, `proofs` proves single records, `holds` keeps
records from being removed or erased, `removal` removes them. Read `records` first.
"""
