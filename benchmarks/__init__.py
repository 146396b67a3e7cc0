"""Measurements of the parts that must be fast. Each module runs by itself and ends with one JSON line of figures."""
