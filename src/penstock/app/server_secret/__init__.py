"""What only the server knows: its secret, and the key that signs checkpoints of audit trails.

API keys are hashed with the secret, audit trails are sealed with it, and the keys of everything else that the server
signs or encrypts are derived from it. Servers on one database need the same secret and the same audit key. Each comes
from a file beside the database, or from where the settings `server.secret` and `server.audit_key` say.

`sources` reads either, `secret` compares the secret with the database, `audit_keys` implements the port of the
operations. Read `keys` first, which has both sources of one database.
"""
