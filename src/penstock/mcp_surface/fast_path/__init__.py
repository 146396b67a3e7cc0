"""The fast path: frequent requests of the newest era, answered without the SDK. Read `backend` first."""
