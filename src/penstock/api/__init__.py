"""The REST projection of the catalogue."""
