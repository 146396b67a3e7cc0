"""Hostile tool results and descriptions for agents, and the platform on which a model obeys every one of them."""
