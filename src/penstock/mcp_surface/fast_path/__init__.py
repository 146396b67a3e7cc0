"""The fast path: frequent requests of the newest era, answered without the SDK.

Requests that it does not answer go to the SDK's backend unchanged. Read `backend` first.
"""
