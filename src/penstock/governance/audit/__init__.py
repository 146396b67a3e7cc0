"""The audit log as evidence: what is sealed, what is hashed for third parties, and how both are verified.

Two things protect a trail. Its owner seals every record under a secret key, each with the seal before it (`chain`).
Third parties have no key: for them every record has a plain hash (`leaves`), the hashes are the leaves of a Merkle tree
(`tree`), and checkpoints of the tree are signed (`checkpoints`). `trails` verifies an exported trail with nothing but a
public key. Read `chain` first, then `leaves`.
"""
