"""The web console: a projection of the catalogue for people."""
