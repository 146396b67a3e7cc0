"""Operations about the server itself: health, the audit log, and the internal calls of retention and of a restore.

They use the services of this process and the store ports. No other resource is imported. Read `health` first.
"""
