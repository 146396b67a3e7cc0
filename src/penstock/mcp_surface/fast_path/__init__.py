"""Hot requests of the newest era, answered without the SDK."""
